"""A belief that expects the hidden parameter to drift: a random walk of e, as in a Kalman filter."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.errors import require_positive
from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief
from pyro_dynamics.inference.gaussians import gaussian_like, moments


@dataclass(frozen=True)
class DiffusionConfig:
    """How far the hidden parameter may drift.

    Attributes:
        scale: standard deviation of each latent's step, in units of N(0, I), the prior of training.
    """

    scale: float = 0.02

    def __post_init__(self) -> None:
        require_positive(self, "scale")


@BELIEFS.register("diffusion")
class DiffusionBelief(Belief):
    """The prior of the next update is the last posterior convolved with N(0, scale^2 I).

    A posterior that is no Gaussian is replaced by the Gaussian with its mean and covariance first.
    """

    Config = DiffusionConfig
    config: DiffusionConfig

    def prior(self, posterior: Distribution, seen: Tensor) -> Distribution:
        mean, covariance = moments(posterior)
        drift = self.config.scale**2 * torch.eye(mean.shape[-1], dtype=mean.dtype)
        return gaussian_like(posterior, mean, covariance + torch.where(seen[:, None, None], drift, 0 * drift))
