"""What every path asks of the distribution of the targets, beside torch and scipy."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import (
    Categorical,
    Independent,
    Laplace,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    StudentT,
)

from pyro_dynamics.errors import UserError
from pyro_dynamics.observation import draw, gaussian_parameters, location_and_scale, marginal_cdf

LOCATION, SCALE = torch.tensor([[0.0, 1.0], [2.0, -1.0]]), torch.tensor([[1.0, 0.5], [2.0, 3.0]])
TARGETS = torch.tensor([[0.3, 1.2], [-1.0, 4.0]])
GAUSSIAN = Independent(Normal(LOCATION, SCALE), 1)
STUDENT = Independent(StudentT(4.0, LOCATION, SCALE), 1)


def test_a_gaussian_is_taken_apart_and_others_are_not() -> None:
    found = gaussian_parameters(GAUSSIAN)
    assert found is not None
    assert torch.equal(found[0], LOCATION)
    assert gaussian_parameters(STUDENT) is None
    location, scale = location_and_scale(STUDENT)
    torch.testing.assert_close(scale, SCALE * 2**0.5)  # df / (df - 2) = 2
    assert torch.equal(location, LOCATION)


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (GAUSSIAN, stats.norm(LOCATION, SCALE)),
        (STUDENT, stats.t(4.0, LOCATION, SCALE)),
        (Independent(Laplace(LOCATION, SCALE), 1), stats.laplace(LOCATION, SCALE)),
        (MultivariateNormal(LOCATION, torch.diag_embed(SCALE**2)), stats.norm(LOCATION, SCALE)),
    ],
    ids=["Gaussian", "Student-t", "Laplace", "multivariate"],
)
def test_the_cdf_of_each_target_is_scipys(distribution: torch.distributions.Distribution, expected: object) -> None:
    reference = torch.from_numpy(np.asarray(expected.cdf(TARGETS.numpy()))).float()  # type: ignore[attr-defined]
    torch.testing.assert_close(marginal_cdf(distribution, TARGETS).float(), reference)


def test_a_factor_widens_around_the_centre() -> None:
    factor = torch.full((2, 2), 2.0)
    for distribution, wider in ((GAUSSIAN, Normal(LOCATION, 2 * SCALE)), (STUDENT, None)):
        found = marginal_cdf(distribution, TARGETS, factor)
        reference = stats.t(4.0, LOCATION, 2 * SCALE).cdf(TARGETS) if wider is None else wider.cdf(TARGETS).numpy()
        np.testing.assert_allclose(found.numpy(), reference, rtol=1e-5)


def test_a_likelihood_without_a_cdf_is_refused_in_words() -> None:
    mixture = MixtureSameFamily(Categorical(torch.ones(2, 2)), MultivariateNormal(torch.zeros(2, 2, 2), torch.eye(2)))
    with pytest.raises(UserError, match="CDF of a likelihood MixtureSameFamily is not known"):
        marginal_cdf(mixture, TARGETS)


@pytest.mark.parametrize("distribution", [GAUSSIAN, STUDENT], ids=["Gaussian", "Student-t"])
def test_draws_come_from_the_generator_and_have_the_median(distribution: torch.distributions.Distribution) -> None:
    many = distribution.expand((4000, 2))
    before = torch.get_rng_state()
    first, again = (draw(many, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)
    below = (first < LOCATION).float().mean(0)
    assert ((below - 0.5).abs() < 4 * 0.5 / 4000**0.5).all()  # four standard errors
