"""Model predictive path integral control (Williams et al. 2017), for K problems at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_dynamics.control.contract import PLANNERS, Objective, Planner, shifted
from pyro_dynamics.control.noise import coloured_noise
from pyro_dynamics.errors import UserError, require_positive


@dataclass(frozen=True)
class MPPIConfig:
    """Settings of MPPI.

    Attributes:
        candidates: number C of action sequences in each iteration.
        iterations: how many; the paper has one.
        temperature: lambda, in standard deviations of the candidates' returns, so that it means the same whatever the
            rewards' scale. Towards 0 the best candidate has all the weight; the higher, the nearer to a plain mean.
        sigma: standard deviation of the noise, in actions of [-1, 1]; the same in every iteration and step.
        beta: the noise has the power spectrum f^-beta over the horizon; 0 is the paper's white noise.
    """

    candidates: int = 500
    iterations: int = 5
    temperature: float = 0.5
    sigma: float = 0.5
    beta: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self, "candidates", "iterations", "temperature", "sigma")
        if not 0 <= self.beta < float("inf"):
            raise UserError(f"beta must not be negative, nor infinite: {self.beta}")

    @property
    def evaluations(self) -> int:
        """Action sequences evaluated in a step."""
        return self.candidates * self.iterations


@PLANNERS.register("mppi")
class MPPI(Planner):
    """Moves the mean to the candidates' mean, weighted by a softmax of their returns.

    The paper's cost of control, which pulls towards the last plan, is left out (alpha is 1): the reward has its own.
    """

    Config = MPPIConfig
    config: MPPIConfig

    def plan(
        self, objective: Callable[[], Objective], shape: tuple[int, int, int], generator: torch.Generator
    ) -> Tensor:
        config, mean = self.config, self.start(shape, generator)
        problems, horizon, actions = shape
        for _ in range(config.iterations):
            noise = coloured_noise((problems, config.candidates, horizon, actions), config.beta, generator)
            candidates = (mean[:, None] + config.sigma * noise).clamp_(-1, 1)
            weights = softmax_weights(objective()(candidates), config.temperature)
            mean = mean + (weights[:, :, None, None] * (candidates - mean[:, None])).sum(1)
        self.mean = shifted(mean, torch.zeros_like(mean[:, :1]))
        return mean


def softmax_weights(returns: Tensor, temperature: float) -> Tensor:
    """Weights proportional to exp((R - max R) / (temperature sd)), with sd that of a problem's finite returns.

    Args:
        returns: ``[K, C]``; what is not a finite number has the weight 0.
        temperature: positive.

    Returns:
        ``[K, C]``; each row sums to 1, or is all 0 where no return is finite.
    """
    good = returns.isfinite()
    count = good.sum(1, keepdim=True).clamp(min=1)
    centred = returns - torch.where(good, returns, 0.0).sum(1, keepdim=True) / count
    variance = torch.where(good, centred, 0.0).square().sum(1, keepdim=True) / count
    scale = variance.sqrt().clamp(min=torch.finfo(returns.dtype).tiny)  # equal returns have equal weights
    exponent = torch.where(good, centred / scale / temperature, -torch.inf)
    return exponent.softmax(1).nan_to_num(0.0)  # softmax subtracts the maximum, and gives NaN where there is none
