"""A belief that forgets at a constant rate: the power prior of Ibrahim and Chen (2000)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief
from pyro_dynamics.inference.gaussians import gaussian_like, gaussian_moments, is_gaussian


@dataclass(frozen=True)
class PowerConfig:
    """How fast it forgets.

    Attributes:
        forgetting_factor: the power lambda in (0, 1] of the last posterior. After a change the belief makes 90 % of the
            move in ln 0.1 / ln lambda steps (45 at 0.95), and in the long run it rests on 1 / (1 - lambda) transitions.
    """

    forgetting_factor: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.forgetting_factor <= 1:
            raise UserError(f"forgetting_factor must lie in (0, 1], not {self.forgetting_factor}")


@BELIEFS.register("power")
class PowerBelief(Belief):
    """The prior of the next update is proportional to q^lambda p_0^(1 - lambda), with p_0 the belief at the start."""

    Config = PowerConfig
    config: PowerConfig

    def prior(self, posterior: Distribution, seen: Tensor) -> Distribution:
        forgetting_factor = torch.where(seen, self.config.forgetting_factor, 1.0)
        if is_gaussian(posterior) and is_gaussian(self.base):
            return geometric_mean(posterior, self.base, forgetting_factor)
        return UnnormalisedMean(posterior, self.base, forgetting_factor)


def geometric_mean(first: Distribution, second: Distribution, weight: Tensor) -> Distribution:
    """The Gaussian proportional to first^w second^(1 - w), written as ``first`` is; ``weight`` is ``[K]``."""
    (mean, covariance), (other_mean, other_covariance) = gaussian_moments(first), gaussian_moments(second)
    weight = weight.to(mean.dtype)[:, None, None]
    precision = weight * torch.linalg.inv(covariance)
    other_precision = (1 - weight) * torch.linalg.inv(other_covariance)
    information = precision @ mean[..., None] + other_precision @ other_mean[..., None]
    new_covariance = torch.linalg.inv(precision + other_precision)
    return gaussian_like(first, (new_covariance @ information).squeeze(-1), new_covariance)


class UnnormalisedMean(Distribution):
    """first^w second^(1 - w) without its constant, which no gradient and no acceptance needs."""

    arg_constraints = {}  # noqa: RUF012  # torch's own convention

    def __init__(self, first: Distribution, second: Distribution, weight: Tensor) -> None:
        super().__init__(first.batch_shape, first.event_shape, validate_args=False)
        self.first, self.second, self.weight = first, second, weight

    def log_prob(self, value: Tensor) -> Tensor:
        return self.weight * self.first.log_prob(value) + (1 - self.weight) * self.second.log_prob(value)
