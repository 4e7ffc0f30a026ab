"""How well a trained run predicts episodes that it was not trained on: one step ahead, and many."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.collapse import collapse_gap, collapse_gap_p
from pyro_dynamics.diagnostics.posterior.datatree import sample_targets
from pyro_dynamics.diagnostics.prediction.forecast import Forecast, forecast
from pyro_dynamics.diagnostics.prediction.predictive import coverage
from pyro_dynamics.diagnostics.prediction.scores import crps, energy_score, rank_pit
from pyro_dynamics.seeding import derive_generator, drawing_from
from pyro_dynamics.transitions import Transitions

DRAWS = 100
"""Draws behind CRPS and energy score, which are unbiased in their number."""
CHANCE = 0.05
"""P-value from which on a gain over permuted latents counts as none."""


@dataclass(frozen=True)
class PredictionQuality:
    """How well held-out episodes of one environment were predicted.

    Attributes:
        transitions: how many.
        log_likelihood: log p(s' | s, a) of the mixture over draws and members, mean in nats.
        coverage: share of targets inside their 90 % one-step intervals.
        crps: continuous ranked probability score of each target, in its unit.
        energy: energy score of all targets, each divided by its standard deviation in the held-out data.
        coverage_by_horizon: share of the states inside 90 % intervals, h steps ahead, h = 1 ... H.
        crps_by_horizon: mean CRPS over state dimensions, each divided by its standard deviation.
        gap: log-likelihood under the right latent less that under the others', in nats for each transition; None
            where there is no other or no latent. Not surely above 0: the network does not use the latent.
        gap_p: p-value of there being such a difference, either way.
    """

    transitions: int
    log_likelihood: float
    coverage: float
    crps: list[float]
    energy: float
    coverage_by_horizon: list[float]
    crps_by_horizon: list[float]
    gap: float | None
    gap_p: float = 0.0

    @property
    def uses_latent(self) -> bool:
        """Whether the right latent predicts better than the others, and not by chance."""
        return self.gap is not None and self.gap > 0 and self.gap_p < CHANCE


@dataclass(frozen=True)
class HeldOut:
    """Predictions of the held-out episodes of K environments.

    Attributes:
        quality: of each environment, in order.
        pit: CDF of the one-step prediction at the observed target, for each environment, ``[n_k, T]``.
        horizon: steps H of the many-step predictions.
        forecasts: those, one for each agent of the group.
    """

    quality: list[PredictionQuality]
    pit: list[np.ndarray]
    horizon: int
    forecasts: list[Forecast]


def predict_held_out(group: AgentGroup, data: Transitions, horizon: int, particles: int, seed: int) -> HeldOut:
    """Predict episodes from the beliefs as they are now.

    Args:
        group: agents that share out the K environments of ``data``.
        data: episodes that were not trained on.
        horizon: steps H of the many-step predictions; cut to the shortest episode.
        particles: of each many-step prediction.
        seed: names the random streams.
    """
    horizon = min([horizon, *map(len, data.episodes())])
    by_environment: dict[int, tuple[PredictionQuality, np.ndarray]] = {}
    forecasts = []
    for index, (agent, share) in enumerate(zip(group.agents, group.shares, strict=True)):
        generator = derive_generator(seed, "diagnose", "held out", index)
        own = data.of(share)
        many = forecast(agent, own, horizon, particles, generator)
        forecasts.append(many)
        right, wrong = collapse_gap(agent, own)
        chance = collapse_gap_p(agent, own)
        for k, environment in enumerate(share):
            quality, pit = _of_environment(agent, own, k, many, generator)
            if wrong is not None and chance is not None:
                quality = replace(quality, gap=float(right[k] - wrong[k]), gap_p=chance[k])
            by_environment[environment] = quality, pit
    found = [by_environment[k] for k in sorted(by_environment)]
    return HeldOut([quality for quality, _ in found], [pit for _, pit in found], horizon, forecasts)


@torch.no_grad()
def _of_environment(
    agent: Agent, data: Transitions, k: int, many: Forecast, generator: torch.Generator
) -> tuple[PredictionQuality, np.ndarray]:
    """Quality, and the one-step PIT ``[n, T]``, of environment k of an agent."""
    own = data.select(data.environment == k)
    observed = (own.state, own.action, own.next_state, own.environment, generator)
    log_likelihood = agent.log_predictive(*observed)
    pit = agent.predictive_pit(*observed)
    with drawing_from(generator):
        latents = agent.posterior().sample((DRAWS,))
    draws, targets = sample_targets(agent, own, latents, generator), agent.task.targets(own.state, own.next_state)
    scale = unit_scale(targets)
    later, came = many.draws[:, many.environment == k], many.observed[many.environment == k]  # [P, w, H, S], [w, H, S]
    by_horizon = coverage(rank_pit(later, came)).mean(0)
    score = (crps(later, came) / unit_scale(own.state)).mean(dim=(0, 2))
    quality = PredictionQuality(
        transitions=len(own),
        log_likelihood=float(log_likelihood.mean()),
        coverage=float(coverage(pit).mean()),
        crps=crps(draws, targets).mean(0).tolist(),
        energy=float(energy_score(draws / scale, targets / scale).mean()),
        coverage_by_horizon=by_horizon.tolist(),
        crps_by_horizon=score.tolist(),
        gap=None,
    )
    return quality, pit.numpy()


def unit_scale(values: Tensor) -> Tensor:
    """Standard deviation of each column of ``[n, T]``; 1 for a column that never changes."""
    scale = values.std(0, correction=0)
    return torch.where(scale < 1e-12, torch.ones_like(scale), scale)
