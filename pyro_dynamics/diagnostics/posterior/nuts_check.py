"""The guide against NUTS (Hoffman and Gelman 2014) in one environment of a trained run, given the same few transitions.

Importance sampling sees only where the guide's own draws fall; chains that start elsewhere may find what it misses.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.posterior.accuracy import LogDensity, closeness, log_density, posterior_moments, run_nuts
from pyro_dynamics.diagnostics.posterior.datatree import refuse_without_posterior
from pyro_dynamics.diagnostics.posterior.importance import Importance, importance
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import SVIUpdate, SVIUpdateConfig
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.inference.user_model import over_environments
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions

FIT = (
    *[SVIUpdateConfig(steps=200, learning_rate=1e-2, samples=4)] * 3,
    SVIUpdateConfig(steps=300, learning_rate=1e-3, samples=4),
)
"""Adam starts anew with each: it remembers gradients of a far start for a thousand steps, and hardly moves. The last,
with small steps, lets the noise settle."""
R_HAT = 1.05
"""Above this the chains have not mixed, and are no reference. Chains of 200 draws that have mixed give up to 1.03."""
FEWEST = 20
"""Draws and warm-up steps of a chain, below which neither NUTS's tuning nor R-hat have enough to work on."""


@dataclass(frozen=True)
class NutsCheck:
    """A guide beside NUTS, both given n transitions of one environment.

    Attributes:
        environment: its index.
        rows: n.
        mean_error: root mean square over dimensions of the guide's mean less NUTS's, in standard deviations of NUTS.
        sd_ratio: the guide's standard deviation over NUTS's, mean over dimensions; below 1 is overconfident.
        correlation: of the guide's first two dimensions; None where there is one.
        nuts_correlation: the same of NUTS.
        k_hat: shape of the importance weights' tail; see
            :class:`~pyro_dynamics.diagnostics.posterior.importance.Importance`.
        k_threshold: below this k-hat the guide can be relied upon.
        r_hat: largest split R-hat over dimensions.
        effective: smallest effective number of NUTS's draws over dimensions.
        mean: the guide's, ``[d]``.
        sd: the guide's, ``[d]``.
        nuts_mean: ``[d]``.
        nuts_sd: ``[d]``.
    """

    environment: int
    rows: int
    mean_error: float
    sd_ratio: float
    correlation: float | None
    nuts_correlation: float | None
    k_hat: float
    k_threshold: float
    r_hat: float
    effective: float
    mean: list[float]
    sd: list[float]
    nuts_mean: list[float]
    nuts_sd: list[float]

    @property
    def chains_met(self) -> bool:
        """Whether NUTS is a reference at all."""
        return self.r_hat <= R_HAT


def compare_with_nuts(
    agent: Agent,
    data: Transitions,
    environment: int,
    rows: int,
    draws: int,
    warm_up: int,
    chains: int,
    generator: torch.Generator,
) -> NutsCheck:
    """Fit the agent's guide family to a few transitions of one environment, and sample the same posterior by NUTS.

    Both take the agent's model as it is, with its prior. What is judged is not the agent's own posterior,
    of all transitions, but what the same family and objective make of these few. A guide that remembers fewer
    transitions than ``rows`` is judged by the posterior of all of them.

    Args:
        agent: a trained agent; it is not changed.
        data: transitions of its K environments.
        environment: which of them.
        rows: how many transitions to take, evenly spread from the first to the last.
        draws: of each chain.
        warm_up: steps in which each chain tunes itself.
        chains: each from a draw of N(0, I), so that several modes show.
        generator: source of all draws.

    Raises:
        UserError: if the agent has no posterior, the environment no transitions, or the chains are too short.
    """
    refuse_without_posterior(agent)
    if min(draws, warm_up) < FEWEST or min(rows, chains) < 1:
        raise UserError(f"a comparison with NUTS needs {FEWEST} draws and warm-up steps or more, rows and chains")
    inputs, targets = thinned(agent, data, environment, rows)
    guide = fit_guide(agent, environment, inputs, targets, generator)
    density = log_density(agent.model, inputs, targets)
    weights = weigh(guide, density, generator)
    found = run_nuts(density, agent.latent_dim, warm_up, draws, chains, generator)

    mean, covariance = posterior_moments(guide, generator)
    nuts_covariance = found.covariance.view_as(covariance)  # of one dimension torch's is a number
    sd, nuts_sd = (matrix.diagonal(dim1=-2, dim2=-1).sqrt() for matrix in (covariance, nuts_covariance))
    return NutsCheck(
        environment=environment,
        rows=len(inputs),
        mean_error=closeness(mean, None, found.mean, nuts_covariance).mean_error,
        sd_ratio=float((sd / nuts_sd).mean()),
        correlation=first_correlation(covariance),
        nuts_correlation=first_correlation(nuts_covariance),
        k_hat=weights.k_hat,
        k_threshold=weights.threshold,
        r_hat=found.r_hat,
        effective=found.effective,
        mean=mean[0].tolist(),
        sd=sd[0].tolist(),
        nuts_mean=found.mean[0].tolist(),
        nuts_sd=nuts_sd[0].tolist(),
    )


def thinned(agent: Agent, data: Transitions, environment: int, rows: int) -> tuple[Tensor, Tensor]:
    """Inputs ``[n, F + A]`` and targets ``[n, T]`` of up to ``rows`` transitions of one environment, evenly spread.

    Raises:
        UserError: if it has none.
    """
    own = (data.environment == environment).nonzero().squeeze(1)
    if not len(own):
        raise UserError(f"there are no transitions of environment {environment} to compare its guide with NUTS on")
    few = data.select(own[torch.linspace(0, len(own) - 1, min(rows, len(own))).long()])
    return agent.task.inputs(few.state, few.action), agent.task.targets(few.state, few.next_state)


def fit_guide(
    agent: Agent, environment: int, inputs: Tensor, targets: Tensor, generator: torch.Generator
) -> Distribution:
    """The agent's guide family, fitted to transitions ``[n, ...]`` of one environment, theta fixed.

    The fit begins at the agent's own posterior. From N(0, I), a hundred times as wide as what fifty transitions leave
    on HalfCheetah, the noise of the gradients is so large that 1500 steps ended at 36 times the width.
    """
    model, guide = over_environments(agent.model, 1), agent.guide.for_environments(1)
    owner = torch.zeros(len(inputs), dtype=torch.long)
    if guide.reads_transitions:
        guide.observe(inputs, targets, owner)  # there is nothing to fit, and nothing else to be remembered
    else:
        guide.assign(torch.tensor([0]), agent.guide, torch.tensor([environment]))
    batch = whole_batch(inputs, targets, owner, model.likelihood.members)
    for config in FIT:
        SVIUpdate(config).fit(model, guide, model.prior(), batch, generator)
    return guide.frozen()


@torch.no_grad()
def weigh(posterior: Distribution, density: LogDensity, generator: torch.Generator, draws: int = 1000) -> Importance:
    """Importance weights of draws from the guide of one environment."""
    with drawing_from(generator):
        latent = posterior.sample(torch.Size([draws]))  # [S, 1, d]
    log_p = torch.cat([density(part) for part in latent[:, 0].split(100)])  # a few at a time, for the memory
    return importance(log_p.numpy(), posterior.log_prob(latent)[:, 0].numpy(), latent[:, 0].numpy())


def first_correlation(covariance: Tensor) -> float | None:
    """Of the first two dimensions of a covariance ``[1, d, d]``."""
    if covariance.shape[-1] < 2:
        return None
    return float(covariance[0, 0, 1] / (covariance[0, 0, 0] * covariance[0, 1, 1]).sqrt())
