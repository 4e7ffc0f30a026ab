"""The temperature of the online likelihood, chosen by the coverage of beliefs about environments that are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.prediction.predictive import LEVEL, coverage
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.seeding import derive_generator, drawing_from
from pyro_dynamics.transitions import Transitions

ENOUGH = 0.85
"""Share of 90 % regions that must cover the trained latent: exactly 90 % cannot be asked of a few environments."""


@dataclass(frozen=True)
class Calibration:
    """What the replay of held-out episodes showed at one temperature.

    Attributes:
        temperature: power of the likelihood.
        belief_coverage: share of (environment, step), over the second half of each episode, in which the trained
            latent mean of the environment lies in the belief's central 90 % region.
        by_environment: the same for each of the K environments.
        predictive_coverage: share of the targets inside their 90 % one-step intervals, before they were seen.
        log_likelihood: mean log predictive likelihood in nats for each transition.
        belief_sd: mean standard deviation of the beliefs at the end of the episodes.
    """

    temperature: float
    belief_coverage: float
    by_environment: list[float]
    predictive_coverage: float
    log_likelihood: float
    belief_sd: float


def first_episodes(data: Transitions, environments: int) -> list[Transitions]:
    """One episode of each environment, as a list of steps with a row for each environment whose episode lasts so long.

    Where a round has several episodes of an environment this is the first.

    Args:
        data: the transitions of one round, in the order in which they were observed.
        environments: K.

    Raises:
        UserError: if an environment has no transitions.
    """
    first: dict[int, list[int]] = {}
    for rows in data.episodes():
        first.setdefault(int(data.environment[rows[0]]), rows.tolist())
    for k in range(environments):
        if k not in first:
            raise UserError(f"the round holds no transitions of environment {k}")
    episodes = [first[k] for k in range(environments)]
    longest = max(map(len, episodes))
    steps = [[episode[t] for episode in episodes if t < len(episode)] for t in range(longest)]
    return [data.select(torch.tensor(rows)) for rows in steps]


def calibrate(
    make_agent: Callable[[float], Agent],
    truth: Tensor,
    episodes: Sequence[Transitions],
    temperatures: Sequence[float],
    seed: int,
    on_step: Callable[[float], None],
) -> list[Calibration]:
    """Replay the same held-out episodes through fresh beliefs at each temperature.

    Args:
        make_agent: an agent with fresh beliefs about K environments, whose updates have the given temperature.
        truth: the latent means of those environments, as training on all of their data found them, ``[K, d]``.
        episodes: for each step the transitions of one or more environments.
        temperatures: those to try.
        seed: names the random streams, which are the same for each temperature.
        on_step: called with each step's temperature.
    """
    rows = []
    for temperature in temperatures:
        agent = make_agent(temperature)
        trace = replay(agent, truth, episodes, derive_generator(seed, "calibrate"), partial(on_step, temperature))
        rows.append(_summary(temperature, trace, agent))
    return rows


@dataclass(frozen=True)
class Trace:
    """N transitions of a replay, in their order.

    Attributes:
        environment: ``[N]``.
        step: ``[N]``.
        log_likelihood: under the belief before the transition was seen, in nats, ``[N]``.
        inside: share of the targets inside their 90 % intervals under the same belief, ``[N]``.
        covered: whether the belief's 90 % region after the transition covers the true latent, ``[N]``.
    """

    environment: Tensor
    step: Tensor
    log_likelihood: Tensor
    inside: Tensor
    covered: Tensor


def replay(
    agent: Agent,
    truth: Tensor,
    episodes: Sequence[Transitions],
    generator: torch.Generator,
    on_step: Callable[[], None],
) -> Trace:
    """Bring the steps of K episodes into an agent's beliefs, one after the other, and measure before and after each."""
    parts = []
    for now in episodes:
        observed = (now.state, now.action, now.next_state, now.environment, generator)
        log_likelihood = agent.log_predictive(*observed)
        inside = coverage(agent.predictive_pit(*observed))
        agent.observe(*observed)
        covered = in_central_region(agent, truth, generator)[now.environment]
        parts.append((now.environment, now.step, log_likelihood, inside, covered))
        on_step()
    return Trace(*(torch.cat(column) for column in zip(*parts, strict=True)))


@torch.no_grad()
def in_central_region(agent: Agent, latent: Tensor, generator: torch.Generator) -> Tensor:
    """Whether latents ``[K, d]`` lie in the central 90 % region of the agent's beliefs about K environments, ``[K]``.

    The region is that of the Gaussian with the belief's mean and covariance: the squared Mahalanobis distance is below
    the 90 % quantile of the chi-square distribution with d degrees of freedom.
    """
    from scipy.stats import chi2  # here, as it takes long

    with drawing_from(generator):
        mean, covariance = moments(agent.posterior())
    offset = (latent - mean).double()
    solved = torch.linalg.solve(covariance.double(), offset[..., None]).squeeze(-1)
    return (offset * solved).sum(-1) <= chi2.ppf(LEVEL, latent.shape[1])


def _summary(temperature: float, trace: Trace, agent: Agent) -> Calibration:
    late = [_second_half(trace, k) for k in range(agent.environments)]
    return Calibration(
        temperature,
        float(torch.cat(late).float().mean()),
        [float(covered.float().mean()) for covered in late],
        float(trace.inside.mean()),
        float(trace.log_likelihood.mean()),
        float(agent.posterior().stddev.mean()),
    )


def _second_half(trace: Trace, environment: int) -> Tensor:
    """``covered`` over the second half of an environment's episode; at its beginning a belief is the prior."""
    covered = trace.covered[trace.environment == environment]
    return covered[len(covered) // 2 :]


def choose(rows: Sequence[Calibration]) -> Calibration:
    """The largest temperature whose belief coverage is enough, or else the one nearest to 90 %.

    A larger one learns faster from each transition, so no more is given away than coverage asks for.
    """
    enough = [row for row in rows if row.belief_coverage >= ENOUGH]
    if enough:
        return max(enough, key=lambda row: row.temperature)
    return min(rows, key=lambda row: (abs(row.belief_coverage - LEVEL), -row.temperature))
