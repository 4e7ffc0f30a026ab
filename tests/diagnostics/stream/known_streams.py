"""Streams of a linear-Gaussian model, whose exact belief is known: right ones, and ones made wrong on purpose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.control import MPCConfig
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.stream_diagnosis import StreamDiagnosis, diagnose_stream
from pyro_dynamics.guides import FullRankGuide
from pyro_dynamics.inference import BELIEFS, KalmanUpdate, KalmanUpdateConfig, OfflineConfig
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.observation import marginal_cdf
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

DRAWS, NOISE = 400, 2.0
CONTEXTS = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""Of the trained environments; their latents lie on a line."""
ALONG = np.array([0.6, 0.8])
TRAINED = np.outer(CONTEXTS, ALONG) * 0.7
TRAINED_SD = 0.03
WRONG = ("frozen", "another context", "prior-wide", "one step late", "biased network")
CONDEMNED_BY_NOTHING = ("believe", "believe, but over-dispersed", "believe the latent only")
"""Words that condemn no belief."""


class Linear(Task):
    """A state of three numbers, an action of one, and no reward."""

    state_dim, action_dim, feature_dim, target_dim = 3, 1, 3, 3

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


@dataclass(frozen=True)
class Case:
    """How a stream is made.

    Attributes:
        seed: names its random streams.
        contexts: the true hidden parameter at each step.
        belief: its kind.
        wrong: one of WRONG, or nothing.
        size: how wrong: where a belief freezes, or the network's bias in standard deviations of the noise.
        known: whether the diagnosis is given the contexts.
        still: steps from which on the states are near zero, where a transition says little about the latent.
    """

    seed: int
    contexts: Sequence[float]
    belief: str = "recursive"
    wrong: str = ""
    size: float = 0.0
    known: bool = True
    still: int | None = None


def constant(context: float, steps: int) -> list[float]:
    return [context] * steps


def switch(before: float, after: float, at: int, steps: int) -> list[float]:
    return [before] * at + [after] * (steps - at)


def right_cases(seed: int) -> list[Case]:
    """Twenty streams with the exact belief of its kind, steady and with a change that the belief follows."""
    s = [100 * seed + i for i in range(20)]
    return [
        Case(s[0], constant(0.5, 120)),
        Case(s[1], constant(-1.5, 200)),
        Case(s[2], constant(1.5, 300)),
        Case(s[3], constant(-0.5, 400), known=False),
        Case(s[4], constant(0.3, 200), known=False),
        Case(s[5], constant(-1.0, 400), still=60),
        Case(s[6], constant(1.2, 250), still=100, known=False),
        Case(s[7], constant(0.5, 60)),
        Case(s[8], constant(1.5, 200), "changepoint"),
        Case(s[9], constant(-0.5, 400), "changepoint"),
        Case(s[10], constant(0.5, 400), "changepoint", still=60),
        Case(s[11], constant(-1.5, 200), "changepoint", known=False),
        Case(s[12], switch(-1.5, 1.5, 80, 200), "changepoint"),
        Case(s[13], switch(0.5, -1.0, 100, 250), "changepoint"),
        Case(s[14], switch(1.5, -0.5, 80, 200), "changepoint", known=False),
        Case(s[15], switch(-1.0, 1.0, 120, 240), "changepoint", known=False),
        Case(s[16], switch(1.0, -1.0, 60, 160), "window"),
        Case(s[17], switch(1.0, -1.0, 60, 160), "window", known=False),
        Case(s[18], constant(0.5, 200), "power", known=False),
        Case(s[19], switch(-1.5, 0.5, 80, 240), "power"),
    ]


def wrong_cases(seed: int) -> list[Case]:
    """Twenty streams with a belief that is not to be believed, four of each kind."""
    s = [100 * seed + 50 + i for i in range(20)]
    return [
        Case(s[0], switch(-1.5, 1.5, 80, 180), wrong="frozen", size=80),
        Case(s[1], switch(0.5, -1.0, 80, 180), wrong="frozen", size=80, known=False),
        Case(s[2], constant(0.5, 180), wrong="frozen", size=8),
        Case(s[3], constant(-0.5, 180), "changepoint", wrong="frozen", size=8, known=False),
        Case(s[4], constant(0.5, 120), wrong="another context"),
        Case(s[5], constant(-1.5, 120), wrong="another context", known=False),
        Case(s[6], constant(1.5, 200), "changepoint", wrong="another context"),
        Case(s[7], constant(-0.5, 200), "changepoint", wrong="another context", known=False),
        Case(s[8], constant(0.5, 120), wrong="prior-wide"),
        Case(s[9], constant(-1.5, 40), wrong="prior-wide"),
        Case(s[10], constant(1.5, 200), wrong="prior-wide", known=False),
        Case(s[11], switch(-1.0, 1.0, 80, 160), wrong="prior-wide"),
        Case(s[12], constant(1.5, 120), wrong="one step late"),
        Case(s[13], constant(-1.5, 200), wrong="one step late", known=False),
        Case(s[14], constant(0.5, 120), "changepoint", wrong="one step late"),
        Case(s[15], switch(-1.5, 1.5, 80, 160), "changepoint", wrong="one step late", known=False),
        Case(s[16], constant(0.5, 120), wrong="biased network", size=1.5),
        Case(s[17], constant(-1.5, 200), wrong="biased network", size=2.0, known=False),
        Case(s[18], constant(1.0, 200), "changepoint", wrong="biased network", size=2.5),
        Case(s[19], constant(-0.5, 120), "changepoint", wrong="biased network", size=3.0, known=False),
    ]


def agent_of(belief: str, still: bool) -> Agent:
    """One environment; where some states are to say nothing, the latent acts by them alone."""
    likelihood = LinearGaussian(4, 2, 3, NOISE, 2, torch.Generator().manual_seed(5))
    if still:
        likelihood.base.zero_()
    rule = KalmanUpdate(KalmanUpdateConfig(iterations=1))
    return Agent(
        HierarchicalModel(likelihood, 1, 2),
        FullRankGuide(1, 2).for_environments(1),
        Linear(),
        (torch.tensor([-1000.0]), torch.tensor([1000.0])),  # nobody plans, and actions are as wide as states
        OfflineConfig(),
        MPCConfig(particles=2),
        lambda model, guide: BELIEFS[belief](model, guide, rule),
    )


def judged(case: Case) -> StreamDiagnosis:
    """Make the stream and judge it, as ``adapt`` would."""
    agent = agent_of(case.belief, case.still is not None)
    generator, other = torch.Generator().manual_seed(case.seed), torch.Generator().manual_seed(case.seed + 1000)
    zero, bias = torch.zeros(1, dtype=torch.long), case.size if case.wrong == "biased network" else 0.0
    belief = agent.belief
    prior = shown = belief.posterior()
    before, begun = None, zero[0]
    columns: dict[str, list[Tensor]] = {
        name: [] for name in ("latent", "log_q", "mean", "sd", "pit", "likely", "begun")
    }
    observed = []
    for step, context in enumerate(case.contexts):
        size = 0.02 if case.still is not None and step >= case.still else 1.0
        state, action = size * torch.randn(1, 3, generator=generator), size * torch.randn(1, 1, generator=generator)
        delta = delta_of(agent, state, action, context, generator) + bias * NOISE
        observed.append(Transitions(state, action, state + delta, torch.zeros(1), zero, zero + step))
        predicted = agent.observation(state, action, drawn(shown, 64, generator)[0])
        columns["pit"].append(marginal_cdf(predicted, delta, None).mean((0, 1))[0])
        columns["likely"].append(predicted.log_prob(delta).flatten().logsumexp(0) - np.log(128))
        learned = delta
        if case.wrong == "another context":
            learned = delta_of(agent, state, action, -context, other)
        elif case.wrong == "one step late" and before is not None:
            learned = before
        before = delta
        agent.observe(state, action, state + learned, zero, generator)
        if case.wrong == "prior-wide":
            shown = prior
        elif case.wrong != "frozen" or step < case.size:
            shown = belief.posterior()
        latent, log_q = drawn(shown, DRAWS, generator)
        columns["latent"].append(latent[:, 0])
        columns["log_q"].append(log_q[:, 0])
        columns["mean"].append(shown.mean[0])
        columns["sd"].append(shown.stddev[0])
        rests_on = belief.rests_on
        if rests_on is not None and (case.wrong != "frozen" or step < case.size):
            begun = step + 1 - rests_on[0]
        columns["begun"].append(begun)
    made = {name: torch.stack(rows).numpy() for name, rows in columns.items()}
    trained_sd = np.full((len(CONTEXTS), 2), TRAINED_SD)
    evidence = Evidence(
        Transitions.concatenate(observed),
        list(case.contexts) if case.known else [None] * len(case.contexts),
        1.0,
        made["latent"],
        made["log_q"],
        ((made["pit"] >= 0.05) & (made["pit"] <= 0.95)).mean(1),
        Stream(made["mean"], made["sd"], made["likely"], made["pit"], TRAINED, trained_sd, -6.5),
        TRAINED,
        CONTEXTS,
        ("tilt",),
        trained_covariances=np.stack([np.diag(sd**2) for sd in trained_sd]),
        begun=made["begun"],
        window=getattr(belief.config, "length", None),
        forgetting_factor=getattr(belief.config, "forgetting_factor", 1.0),
    )
    return diagnose_stream(agent, evidence)


def delta_of(agent: Agent, state: Tensor, action: Tensor, context: float, generator: torch.Generator) -> Tensor:
    """What is observed in an environment, ``[1, 3]``."""
    latent = torch.from_numpy(context * 0.7 * ALONG)[None].float()
    location, scale = agent.model.likelihood(torch.cat([state, action], 1), latent)
    return location + scale * torch.randn(1, 3, generator=generator)


def drawn(posterior: torch.distributions.Distribution, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws ``[count, 1, d]`` of a belief, and its log density at them."""
    with drawing_from(generator):
        draws = posterior.sample((count,))
    return draws, posterior.log_prob(draws)
