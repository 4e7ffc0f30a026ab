"""Gaussians by mean and covariance, however they are written."""

from typing import cast

import torch
from pyro import distributions
from torch import Tensor
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal, MultivariateNormal, Normal

from pyro_dynamics.errors import UserError


def is_gaussian(distribution: Distribution) -> bool:
    """Whether the distribution is one Gaussian over the latents of each environment."""
    if isinstance(distribution, Independent):
        return isinstance(distribution.base_dist, Normal)
    return isinstance(distribution, MultivariateNormal | LowRankMultivariateNormal)


def gaussian_moments(distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Mean ``[..., d]`` and covariance ``[..., d, d]``.

    Raises:
        UserError: if the distribution is no Gaussian.
    """
    if not is_gaussian(distribution):
        raise UserError(f"a Gaussian belief is needed here, not {type(distribution).__name__}: choose --update svi")
    if isinstance(distribution, Independent):
        return distribution.mean, torch.diag_embed(distribution.variance)
    return distribution.mean, distribution.covariance_matrix  # type: ignore[attr-defined]


def moments(distribution: Distribution, samples: int = 256) -> tuple[Tensor, Tensor]:
    """Mean and covariance of any belief: exact for a Gaussian, else from draws."""
    if is_gaussian(distribution):
        return gaussian_moments(distribution)
    draws = distribution.sample((samples,))
    centred = draws - draws.mean(0)
    return draws.mean(0), torch.einsum("nki,nkj->kij", centred, centred) / (samples - 1)


def gaussian_like(distribution: Distribution, mean: Tensor, covariance: Tensor) -> Distribution:
    """A Gaussian, with independent dimensions where ``distribution`` has them and so the covariance is diagonal."""
    if is_gaussian(distribution) and isinstance(distribution, Independent):
        independent: Distribution = distributions.Normal(mean, covariance.diagonal(dim1=-2, dim2=-1).sqrt()).to_event(1)
        return independent
    return distributions.MultivariateNormal(mean, covariance)


def gaussian_tensors(distribution: Distribution) -> tuple[Tensor, ...]:
    """What a Gaussian is made of: mean ``[K, d]``, and deviation, Cholesky factor, or low-rank factor and diagonal."""
    if isinstance(distribution, Independent):
        normal = cast(Normal, distribution.base_dist)
        return normal.loc, normal.scale
    if isinstance(distribution, LowRankMultivariateNormal):
        return distribution.loc, distribution.cov_factor, distribution.cov_diag
    return distribution.loc, distribution.scale_tril  # type: ignore[attr-defined]
