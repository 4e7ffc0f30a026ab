"""A Gaussian with full covariance for each environment."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale


@dataclass(frozen=True)
class FullRankConfig:
    """Where training starts.

    Attributes:
        initial_scale: standard deviation of q(e_k) before the first training, in every direction.
    """

    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_initial_scale(self)


@GUIDES.register("full-rank")
class FullRankGuide(Guide):
    """q(e_k) = N(mu_k, L_k L_k^T); the divergence to any Gaussian prior is known in closed form.

    Row i of the Cholesky factor L is exp(log_scale_i) times (lower_i1, ..., lower_i,i-1, 1, 0, ...): the part below
    the diagonal is measured in the row's own scale, so that a step of the optimiser is as large a change to a narrow
    posterior as it is to a wide one.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: where training starts.
    """

    Config = FullRankConfig

    def __init__(self, environments: int, latent_dim: int, config: FullRankConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config = config or FullRankConfig()
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = nn.Parameter(torch.full((environments, latent_dim), config.initial_scale).log())
        self.lower = nn.Parameter(torch.zeros(environments, latent_dim * (latent_dim - 1) // 2))

    def posterior(self) -> Distribution:
        if not self.latent_dim:  # as a generalist has it; torch cannot factorise an empty matrix
            empty: Distribution = distributions.Normal(self.location, self.log_scale.exp()).to_event(1)
            return empty
        unit = torch.eye(self.latent_dim, dtype=self.lower.dtype, device=self.lower.device).repeat(
            self.environments, 1, 1
        )
        rows, columns = torch.tril_indices(self.latent_dim, self.latent_dim, -1)
        unit[:, rows, columns] = self.lower
        return distributions.MultivariateNormal(self.location, scale_tril=self.log_scale.exp()[..., None] * unit)

    def for_environments(self, environments: int) -> Self:
        return type(self)(environments, self.latent_dim, replace(self.config, initial_scale=1.0)).to(self.location)

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> None:
        factor = torch.linalg.cholesky(covariance)
        scale = factor.diagonal(dim1=-2, dim2=-1)
        rows, columns = torch.tril_indices(self.latent_dim, self.latent_dim, -1)
        self.location.copy_(mean)
        self.log_scale.copy_(scale.log())
        self.lower.copy_((factor / scale[..., None])[:, rows, columns])
