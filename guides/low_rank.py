"""A Gaussian with a diagonal and a few directions of correlation for each environment."""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides.contract import GUIDES, Guide


@dataclass(frozen=True)
class LowRankConfig:
    """How much correlation, and where training starts.

    Attributes:
        rank: number r of directions along which latents vary together; at most the size of the latent.
        initial_scale: standard deviation of q(e_k) before the first training.
    """

    rank: int = 1
    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, "rank", "initial_scale")


@GUIDES.register("low-rank")
class LowRankGuide(Guide):
    """q(e_k) = N(mu_k, S_k (I + F_k F_k^T) S_k) with S diagonal and F ``[d, r]``: O(d r) numbers, not O(d^2).

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: rank, and where training starts.

    Raises:
        UserError: if the rank is above d.
    """

    Config = LowRankConfig

    def __init__(self, environments: int, latent_dim: int, config: LowRankConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config or LowRankConfig()
        if 0 < latent_dim < self.config.rank:
            raise UserError(
                f"rank {self.config.rank} is above the latent's {latent_dim} dimensions: "
                f"choose --guide.rank {latent_dim} or less, or --guide full-rank"
            )
        self.location = nn.Parameter(torch.zeros(environments, latent_dim))
        self.log_scale = nn.Parameter(torch.full((environments, latent_dim), self.config.initial_scale).log())
        # F enters as F F^T: its gradient is 0 at F = 0, and columns that are alike stay alike. So it starts near 0,
        # with the orthogonal columns of a cosine transform.
        row, column = torch.arange(latent_dim)[:, None], torch.arange(self.config.rank)
        start = 0.01 * (math.pi * (row + 0.5) * column / max(latent_dim, 1)).cos()
        self.factor = nn.Parameter(start.repeat(environments, 1, 1))

    def posterior(self) -> Distribution:
        scale = self.log_scale.exp()
        return distributions.LowRankMultivariateNormal(self.location, scale[..., None] * self.factor, scale.square())

    def for_environments(self, environments: int) -> Self:
        config = replace(self.config, initial_scale=1.0)
        return type(self)(environments, self.latent_dim, config).to(self.location)

    @torch.no_grad()
    def match(self, mean: Tensor, covariance: Tensor) -> None:
        # Probabilistic PCA of the correlations (Tipping and Bishop, 1999): the leading eigenvectors, with the mean of
        # the other eigenvalues as noise in every direction. Then the diagonal is set so that every variance is exact:
        # what is lost are correlations alone. From rank d - 1 on nothing is lost, as the one other eigenvalue is the
        # noise. A hair is left between the noise and the eigenvalues, since a column of F that is 0 would stay 0.
        rank = self.config.rank
        scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
        correlation = covariance / (scale[..., None] * scale[..., None, :])
        values, vectors = torch.linalg.eigh(correlation)  # ascending
        noise = 0.999 * values[..., : max(self.latent_dim - rank, 1)].mean(-1, keepdim=True)
        factor = vectors[..., -rank:] * (values[..., -rank:] - noise).clamp(min=1e-6).sqrt()[..., None, :]
        rest = (1 - factor.square().sum(-1)).clamp(min=1e-6).sqrt()
        self.location.copy_(mean)
        self.log_scale.copy_((scale * rest).log())
        self.factor.copy_(factor / rest[..., None])
