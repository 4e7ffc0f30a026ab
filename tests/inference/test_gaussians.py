"""Gaussians by mean and covariance, however they are written."""

import pytest
import torch
from torch.distributions import Independent, Laplace, LowRankMultivariateNormal, MultivariateNormal, Normal

from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import gaussian_like, gaussian_moments, is_gaussian, moments

MEAN = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
FACTOR = torch.tensor([[[0.5], [1.0]], [[-0.3], [0.2]]])
DIAGONAL = torch.tensor([[0.4, 0.9], [1.0, 0.1]])
KINDS = {
    "independent": Independent(Normal(MEAN, DIAGONAL.sqrt()), 1),
    "full": MultivariateNormal(MEAN, FACTOR @ FACTOR.mT + torch.diag_embed(DIAGONAL)),
    "low-rank": LowRankMultivariateNormal(MEAN, FACTOR, DIAGONAL),
}


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_many_draws(kind: str) -> None:
    distribution = KINDS[kind]
    assert is_gaussian(distribution)
    mean, covariance = gaussian_moments(distribution)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = distribution.sample((200_000,))
    centred = draws - draws.mean(0)
    torch.testing.assert_close(mean, draws.mean(0), atol=0.015, rtol=0)  # five standard errors
    torch.testing.assert_close(
        covariance, torch.einsum("nki,nkj->kij", centred, centred) / len(draws), atol=0.02, rtol=0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_another_gaussian_of_the_same_kind_has_the_moments_that_are_given(kind: str) -> None:
    covariance = torch.diag_embed(DIAGONAL)
    found = gaussian_moments(gaussian_like(KINDS[kind], -MEAN, covariance))
    torch.testing.assert_close(found[0], -MEAN)
    torch.testing.assert_close(found[1], covariance)


def test_other_distributions_are_refused_or_sampled() -> None:
    laplace = Independent(Laplace(MEAN, DIAGONAL), 1)
    assert not is_gaussian(laplace)
    with pytest.raises(UserError, match="a Gaussian belief is needed here, not"):
        gaussian_moments(laplace)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mean, covariance = moments(laplace, samples=100_000)
    torch.testing.assert_close(mean, MEAN, atol=0.03, rtol=0)
    torch.testing.assert_close(covariance.diagonal(dim1=-2, dim2=-1), 2 * DIAGONAL**2, atol=0.08, rtol=0)
