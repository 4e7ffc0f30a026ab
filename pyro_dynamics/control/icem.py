"""iCEM, the sample-efficient cross-entropy method (Pinneri et al. 2020, arXiv:2008.06389), for K problems at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pyro_dynamics.control.contract import PLANNERS, Objective, Planner, any_finite, shifted, worst_if_not_finite
from pyro_dynamics.control.noise import coloured_noise
from pyro_dynamics.errors import UserError, require_fraction, require_positive


@dataclass(frozen=True)
class ICEMConfig:
    """Settings of iCEM; the defaults are the paper's for HalfCheetah, but for what is executed.

    Attributes:
        candidates: number N of fresh action sequences in the first iteration.
        elites: how many of the best shape the next proposal; at most half the candidates.
        iterations: how many.
        decay: gamma; iteration i has N gamma^-i fresh candidates, and never less than twice the elites.
        beta: the noise has the power spectrum f^-beta over the horizon; 0 is white.
        sigma: standard deviation at the start of every step, in actions of [-1, 1].
        smoothing: weight of the old mean and standard deviation in the new ones.
        keep: fraction of the elites that compete again, in the next iteration and in the next step.
        std_carry: weight of the last step's final deviation, a step later, in the first one of this step; at 0 every
            step starts at sigma, as in the paper. A plan that was found once is then searched more closely.
        execute: the mean of the elites, or the best sample of the last iteration (the paper's choice, which on a
            learned model finds the model's faults). Of discrete actions the best sample is executed in any case: the
            elites' mean would be a sequence that none of them has.
    """

    candidates: int = 40
    elites: int = 10
    iterations: int = 3
    decay: float = 1.25
    beta: float = 0.25
    sigma: float = 0.5
    smoothing: float = 0.1
    keep: float = 0.3
    std_carry: float = 0.0
    execute: Literal["mean", "best"] = "mean"

    def __post_init__(self) -> None:
        require_positive(self, "candidates", "iterations", "sigma")
        require_fraction(self, "smoothing", "keep", "std_carry")
        if not 1 <= self.elites <= self.candidates // 2:
            raise UserError(f"elites must lie between 1 and half the {self.candidates} candidates, not {self.elites}")
        if not 0 <= self.beta < float("inf"):
            raise UserError(f"beta must not be negative, nor infinite: {self.beta}")
        if not 1 <= self.decay < float("inf"):
            raise UserError(f"decay must be at least 1, and finite, not {self.decay}")
        if self.execute not in ("mean", "best"):
            raise UserError(f"execute must be mean or best, not {self.execute}")

    @property
    def populations(self) -> list[int]:
        """Fresh candidates in each iteration."""
        return [max(int(self.candidates * self.decay**-i), 2 * self.elites) for i in range(self.iterations)]

    @property
    def kept(self) -> int:
        """Elites that compete again."""
        return round(self.keep * self.elites)

    @property
    def evaluations(self) -> int:
        """Action sequences evaluated in a step, kept ones with them; the first of an episode has ``kept`` fewer."""
        return sum(self.populations) + self.kept * self.iterations


@PLANNERS.register("icem")
class ICEM(Planner):
    """CEM with coloured noise, a shrinking population, and elites that are kept.

    A kept elite is evaluated again in each iteration: the objective has new particles and new latents there.
    """

    Config = ICEMConfig
    config: ICEMConfig

    def reset(self) -> None:
        super().reset()
        self.elites: Tensor | None = None
        self.deviation: Tensor | None = None

    def plans(self) -> dict[str, Tensor | None]:
        return {**super().plans(), "elites": self.elites, "deviation": self.deviation}

    def reset_plans(self, problems: Tensor) -> None:
        # The kept elites stay: they are judged anew, and win only if they are still good.
        super().reset_plans(problems)
        if self.deviation is not None:
            self.deviation = self.deviation.masked_fill(problems[:, None, None], self.config.sigma)

    def plan(
        self, objective: Callable[[], Objective], shape: tuple[int, int, int], generator: torch.Generator
    ) -> Tensor:
        config, mean = self.config, self.start(shape, generator)
        fresh = torch.full_like(mean, config.sigma)
        deviation = fresh if self.deviation is None else fresh.lerp(self.deviation, config.std_carry)
        kept = self.elites if self.elites is not None else mean[:, None][:, :0]
        for i, count in enumerate(config.populations):
            candidates = self._propose(mean, deviation, count, generator)
            if i == config.iterations - 1:
                candidates[:, 0] = mean
            candidates = torch.cat([candidates, kept], dim=1)
            returns = worst_if_not_finite(objective()(candidates))
            best = returns.topk(config.elites, dim=1).indices  # the best first
            elites = candidates.take_along_dim(best[:, :, None, None], dim=1)
            new_deviation, new_mean = torch.std_mean(elites, dim=1, correction=0)
            found = any_finite(returns)
            mean = torch.where(found, new_mean.lerp(mean, config.smoothing), mean)
            deviation = torch.where(found, new_deviation.lerp(deviation, config.smoothing), deviation)
            kept = elites[:, : config.kept]
        self.mean = shifted(mean, mean[:, -1:])
        self.elites = shifted(kept, self._last_actions(generator))
        self.deviation = shifted(deviation, fresh[:, -1:])
        best_is_executed = config.execute == "best" or self.choices
        return torch.where(found, elites[:, 0], mean) if best_is_executed else mean

    def _propose(self, mean: Tensor, deviation: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Candidates ``[K, C, H, A]``, clipped: an action at its bound is often the best, and must be likely."""
        problems, horizon, actions = mean.shape
        noise = coloured_noise((problems, count, horizon, actions), self.config.beta, generator)
        return (mean[:, None] + deviation[:, None] * noise).clamp_(-1, 1)

    def _last_actions(self, generator: torch.Generator) -> Tensor:
        """Draws for the end of the elites that are shifted to the next step, ``[K, kept, 1, A]``."""
        assert self.mean is not None
        deviation = torch.full_like(self.mean, self.config.sigma)
        return self._propose(self.mean, deviation, self.config.kept, generator)[:, :, -1:]
