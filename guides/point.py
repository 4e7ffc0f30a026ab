"""A point estimate of each environment's latent: no uncertainty at all, as a baseline."""

from dataclasses import dataclass
from typing import Self

import torch
from pyro import distributions
from torch import nn
from torch.distributions import Distribution

from pyro_dynamics.guides.contract import GUIDES, Guide


@dataclass(frozen=True)
class PointConfig:
    """Nothing to set."""


@GUIDES.register("point")
class PointGuide(Guide):
    """q(e_k) is all at one point, the mode of the posterior. It can be planned with, and not updated online (Eq. 5).

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: nothing to set.
    """

    Config = PointConfig
    has_density = False

    def __init__(self, environments: int, latent_dim: int, config: PointConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))

    def posterior(self) -> Distribution:
        """All at one point; its ``log_prob`` is 0 there and minus infinity elsewhere, and no density."""
        return distributions.Delta(self.location, event_dim=1)

    def for_environments(self, environments: int) -> Self:
        return type(self)(environments, self.latent_dim).to(self.location)
