"""The paper's guide: a Gaussian with diagonal covariance for each environment."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale


@dataclass(frozen=True)
class DiagonalConfig:
    """Where training starts.

    Attributes:
        initial_scale: standard deviation of q(e_k) before the first training. A narrow start lets the network use
            the latent before the noise of its samples teaches it to ignore them.
    """

    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_initial_scale(self)


@GUIDES.register("diagonal")
class DiagonalGuide(Guide):
    """q(e_k) = N(mu_k, diag(sigma_k^2)); the divergence to a Gaussian prior is then known in closed form.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: where training starts.
    """

    Config = DiagonalConfig

    def __init__(self, environments: int, latent_dim: int, config: DiagonalConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config = config or DiagonalConfig()
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = nn.Parameter(torch.full((environments, latent_dim), config.initial_scale).log())

    def posterior(self) -> Distribution:
        posterior: Distribution = distributions.Normal(self.location, self.log_scale.exp()).to_event(1)
        return posterior

    def frozen(self) -> Distribution:
        # Without the copy of the module: every control step asks for it many times.
        location, log_scale = self.location.detach().clone(), self.log_scale.detach()
        posterior: Distribution = distributions.Normal(location, log_scale.exp()).to_event(1)
        return posterior

    def for_environments(self, environments: int) -> Self:
        return type(self)(environments, self.latent_dim, replace(self.config, initial_scale=1.0)).to(self.location)

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> None:
        # The optimum of KL(q || N) has the same mean, and the diagonal of the PRECISION, not of the covariance.
        precision = torch.linalg.inv(covariance).diagonal(dim1=-2, dim2=-1)
        self.location.copy_(mean)
        self.log_scale.copy_(-0.5 * precision.log())
