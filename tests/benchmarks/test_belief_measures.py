"""The figures of the belief benchmark beside their closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from pyro_dynamics.benchmarks.belief.measures import (
    capped,
    covered,
    half_width,
    interval,
    move_made,
    squared_z,
    steps_to_follow,
)
from pyro_dynamics.benchmarks.belief.table import cell


@pytest.mark.parametrize("width", [1.0, 0.5, 2.0])
def test_coverage_is_that_of_the_gaussian(width: float) -> None:
    """A belief whose mean errs by its standard deviation times 1 / width covers 2 Phi(1.645 width) - 1."""
    rng = np.random.default_rng(0)
    sd, truth = np.array([0.3, 5.0]), rng.normal(size=(40, 50, 2))
    draws = truth + sd * rng.normal(size=truth.shape) + width * sd * rng.normal(size=(400, *truth.shape))
    share = covered(*interval(draws), truth)
    assert share.shape == (50,)
    assert share.mean() == pytest.approx(2 * stats.norm.cdf(1.645 * width) - 1, abs=0.015)


def test_a_calibrated_pair_of_beliefs_disagrees_by_one() -> None:
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(2, 3000, 2, 2))
    means = np.einsum("icde,ice->icd", factors, rng.normal(size=(2, 3000, 2)))
    noise = rng.normal(size=(2, 400, 3000, 2))
    first, second = means[:, None] + np.einsum("icde,ince->incd", factors, noise)
    assert squared_z(first, second).mean() == pytest.approx(1, abs=0.05)
    assert squared_z(first + 3.0, second + 3.0) == pytest.approx(squared_z(first, second))
    turned = np.array([[2.0, -1.0], [0.5, 3.0]])  # no rotation or scale of the latent matters
    assert squared_z(first @ turned, second @ turned) == pytest.approx(squared_z(first, second), rel=1e-6)


def test_the_disagreement_of_two_known_beliefs() -> None:
    rng = np.random.default_rng(2)
    unit = rng.normal(size=(500, 1, 2))
    unit = (unit - unit.mean(0)) / unit.std(0, ddof=1)
    unit[..., 1] -= unit[..., 0] * (unit[..., 0] * unit[..., 1]).sum() / 499
    unit[..., 1] /= unit[..., 1].std(ddof=1)  # exactly the identity as covariance
    found = squared_z(unit * [1.0, 2.0], unit * [2.0, 1.0] + [3.0, 1.0])
    assert found == pytest.approx([(3.0**2 / 5 + 1.0**2 / 5) / 2])


def test_the_share_of_a_move_is_measured_between_the_truths() -> None:
    old, new, scale = np.array([1.0, 10.0]), np.array([3.0, 40.0]), np.array([2.0, 30.0])
    assert move_made(np.stack([old, new, (old + new) / 2]), old, new, scale) == pytest.approx([0, 1, 0.5])
    aside = old + np.array([2.0, -30.0])  # as far along one parameter as against the other
    assert move_made(aside, old, new, scale) == pytest.approx(0)


@pytest.mark.parametrize("factor", [0.5, 0.8, 0.9])
def test_a_belief_that_forgets_follows_in_the_known_steps(factor: float) -> None:
    share = 1 - factor ** np.arange(1, 60)
    assert steps_to_follow(share) == math.ceil(math.log(0.1) / math.log(factor))


def test_a_change_is_followed_only_if_it_lasts() -> None:
    share = np.array([0.0, 0.95, 0.95, 0.2, *[0.95] * 5])
    assert steps_to_follow(share) == 5
    assert steps_to_follow(share[:-1]) is None
    assert steps_to_follow(np.ones(4)) is None
    assert capped([3, None, 200], 100) == [3, 100, 100]


def test_intervals_are_students() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert half_width([1.0]) is None
    assert cell([[1.0, 2.0, 3.0, 4.0]], "{:+.1f}") == "+2.5 +- 2.1"  # of a single run over its streams
    assert cell([[0.0, 2.0], [2.0, 4.0], None], "{:.1f}") == "2.0 +- 12.7"  # of several over these
    assert cell([None, None], "{:.1f}") == ""
