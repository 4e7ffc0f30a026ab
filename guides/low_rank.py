"""A Gaussian with a diagonal and a few directions of correlation for each environment."""

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale


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
        require_positive(self, "rank")
        require_initial_scale(self)


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
        if not self.latent_dim:
            return
        precision = torch.linalg.inv(covariance)
        start, other = 2 * self.log_scale, _principal_diagonal(covariance, self.config.rank)
        # From where it stands, so that what it holds already stays; from afar by way of the principal directions.
        nearer = _distance(precision, start, self.config.rank) <= _distance(precision, other, self.config.rank) + 1e-6
        log_diagonal = _nearest_diagonal(precision, torch.where(nearer[:, None], start, other), self.config.rank)
        values, vectors = _lowest(precision, log_diagonal, self.config.rank)
        squared = (1 / values - 1)[..., None, :] * vectors.square()
        # A column of F that is 0 would have no gradient, and stay 0: it gets a hair, at the same variances.
        factor = vectors * (1 / values - 1).clamp(min=1e-4).sqrt()[..., None, :]
        shrink = (1 + squared.sum(-1)) / (1 + factor.square().sum(-1))
        self.location.copy_(mean)
        self.log_scale.copy_((log_diagonal + shrink.log()) / 2)
        self.factor.copy_(factor)


# With Q = S (I + F F^T) S and P the precision to be met, KL(q || N) is (tr P Q - log det Q) / 2 but for constants. For
# a given S the best F is known: the eigenvectors of S P S with the lowest eigenvalues l < 1, of squared length
# 1 / l - 1. So S alone is searched for. This is factor analysis, of a precision in the place of a covariance.


def _lowest(precision: Tensor, log_diagonal: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The lowest eigenvalues ``[K, r]`` of S P S, none above 1, and their vectors ``[K, d, r]``, for S^2 ``[K, d]``."""
    scale = (log_diagonal / 2).exp()
    values, vectors = torch.linalg.eigh(scale[..., None] * precision * scale[..., None, :])
    return values[..., :rank].clamp(1e-12, 1), vectors[..., :rank]


def _distance(precision: Tensor, log_diagonal: Tensor, rank: int) -> Tensor:
    """2 KL but for a constant, with the best F for each S, ``[K]``."""
    values, _ = _lowest(precision, log_diagonal, rank)
    trace = (precision.diagonal(dim1=-2, dim2=-1) * log_diagonal.exp() - log_diagonal).sum(-1)
    distance: Tensor = trace + (1 - values + values.log()).sum(-1)
    return distance


def _principal_diagonal(covariance: Tensor, rank: int) -> Tensor:
    """log S^2 ``[K, d]`` by principal components of the correlations (Tipping and Bishop, 1999).

    The mean of the eigenvalues that are left out is the noise in every direction; variances are kept. From rank d - 1
    on this is exact.
    """
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    correlation = covariance / (variance[..., None] * variance[..., None, :]).sqrt()
    values, vectors = torch.linalg.eigh(correlation)  # ascending
    noise = values[..., : max(values.shape[-1] - rank, 1)].mean(-1, keepdim=True)
    factor = vectors[..., -rank:] * (values[..., -rank:] - noise).clamp(min=0).sqrt()[..., None, :]
    log_variance: Tensor = (variance * (1 - factor.square().sum(-1)).clamp(min=1e-6)).log()
    return log_variance


def _nearest_diagonal(precision: Tensor, log_diagonal: Tensor, rank: int, iterations: int = 100) -> Tensor:
    """log S^2 ``[K, d]`` of the nearest Q from a start: Q^-1 and P then have the same diagonal."""
    wanted = precision.diagonal(dim1=-2, dim2=-1)
    for _ in range(iterations):
        values, vectors = _lowest(precision, log_diagonal, rank)
        have = 1 - ((1 - values)[..., None, :] * vectors.square()).sum(-1)  # the diagonal of (I + F F^T)^-1
        change = (have.clamp(min=1e-3) / (wanted * log_diagonal.exp())).log()
        if change.abs().max() < 1e-5:
            break
        log_diagonal = log_diagonal + change / 2  # the whole of it overshoots
    return log_diagonal
