"""The cross-entropy method with PETS's details (Chua et al. 2018), for K problems at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_dynamics.control.contract import PLANNERS, Objective, Planner, any_finite, shifted, worst_if_not_finite
from pyro_dynamics.errors import UserError, require_fraction, require_not_negative, require_positive


@dataclass(frozen=True)
class CEMConfig:
    """Settings of the cross-entropy method; the defaults are PETS's.

    Attributes:
        candidates: number C of action sequences in each iteration.
        elites: how many of the best shape the next proposal.
        iterations: at most this many.
        smoothing: weight of the old mean and variance in the new ones.
        min_variance: a problem is finished when its largest variance is no larger.
    """

    candidates: int = 500
    elites: int = 50
    iterations: int = 5
    smoothing: float = 0.1
    min_variance: float = 0.001

    def __post_init__(self) -> None:
        require_positive(self, "candidates", "iterations")
        require_fraction(self, "smoothing")
        require_not_negative(self, "min_variance")
        if not 1 <= self.elites <= self.candidates:
            raise UserError(f"elites must lie between 1 and the {self.candidates} candidates, not {self.elites}")

    @property
    def evaluations(self) -> int:
        """Action sequences evaluated in a step."""
        return self.candidates * self.iterations


@PLANNERS.register("cem")
class CEM(Planner):
    """:func:`plan_cem` from the last plan, with 0 as the new last action (PETS)."""

    Config = CEMConfig
    config: CEMConfig

    def plan(
        self, objective: Callable[[], Objective], shape: tuple[int, int, int], generator: torch.Generator
    ) -> Tensor:
        plan = plan_cem(objective, self.start(shape, generator), self.config, generator)
        self.mean = shifted(plan, torch.zeros_like(plan[:, :1]))
        return plan


def plan_cem(objective: Callable[[], Objective], mean: Tensor, config: CEMConfig, generator: torch.Generator) -> Tensor:
    """The elite mean after the last iteration.

    Args:
        objective: called once in each iteration, for a fresh objective (new particles, new latents).
        mean: where to start, ``[K, H, A]`` in [-1, 1].
        config: settings.
        generator: source of the candidates.

    Returns:
        The planned actions ``[K, H, A]`` in [-1, 1].
    """
    mean = mean.clone()
    variance = torch.full_like(mean, (1 - -1) ** 2 / 16)
    unfinished = torch.ones_like(mean[:, :1, :1], dtype=torch.bool)
    for _ in range(config.iterations):
        candidates = _propose(mean, variance, config.candidates, generator)
        returns = worst_if_not_finite(objective()(candidates))
        best = returns.topk(config.elites, dim=1).indices
        elites = candidates.take_along_dim(best[:, :, None, None], dim=1)
        new_variance, new_mean = torch.var_mean(elites, dim=1, correction=0)
        unfinished &= any_finite(returns)
        mean = torch.where(unfinished, new_mean.lerp(mean, config.smoothing), mean)
        variance = torch.where(unfinished, new_variance.lerp(variance, config.smoothing), variance)
        unfinished = variance.amax(dim=(1, 2), keepdim=True) > config.min_variance
        if mean.device.type == "cpu" and not unfinished.any():  # to ask a GPU would take longer than another iteration
            break
    return mean


def _propose(mean: Tensor, variance: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Candidates ``[K, C, H, A]`` from normals cut at two standard deviations.

    The standard deviation is at most half the distance to the nearer bound, so that every candidate lies in [-1, 1].
    """
    room = torch.minimum(mean + 1, 1 - mean) / 2
    scale = torch.minimum(variance.sqrt(), room)
    # By the inverse of the distribution function, in a sixth of the time of torch's trunc_normal_ (draw until all fit).
    share = math.erf(2 / math.sqrt(2))
    uniform = mean.new_empty(len(mean), count, *mean.shape[1:]).uniform_(-share, share, generator=generator)
    noise = math.sqrt(2) * uniform.erfinv_()
    return (mean[:, None] + scale[:, None] * noise).clamp_(-1, 1)
