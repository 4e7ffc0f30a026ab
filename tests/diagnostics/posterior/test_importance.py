"""K-hat against theory, and what the weights say of a guide that is wrong in a known way."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from pyro_dynamics.diagnostics.posterior.importance import Importance, importance, k_threshold, smoothed_log_weights

DRAWS = 20_000


def weigh(posterior: Distribution, guide: Distribution, draws: int = DRAWS, seed: int = 0) -> Importance:
    torch.manual_seed(seed)
    e = guide.sample(torch.Size([draws]))
    return importance(posterior.log_prob(e).double().numpy(), guide.log_prob(e).double().numpy(), e.numpy())


def gaussian(sd: float, mean: float = 0.0) -> Distribution:
    return Independent(Normal(torch.tensor([mean]).double(), sd), 1)


@pytest.mark.parametrize("narrow", [1.5, 2.0, 3.0])
def test_k_hat_of_a_narrow_gaussian_is_the_theorys(narrow: float) -> None:
    """The ratios' tail has the shape 1 - 1 / s^2 for a guide that is s times too narrow; a mean over seeds."""
    found = np.mean([weigh(gaussian(1.0), gaussian(1 / narrow), seed=seed).k_hat for seed in range(8)])
    assert found == pytest.approx(1 - 1 / narrow**2, abs=0.1)


def test_an_over_dispersed_guide_is_safe_and_reported_as_such() -> None:
    found = weigh(gaussian(1.0), gaussian(3.0))
    assert found.k_hat < 0.1
    assert found.reliable
    assert found.spread[0] == pytest.approx(3.0, rel=0.05)
    assert found.effective < 0.7 * DRAWS


def test_the_exact_posterior_gives_no_alarm_and_no_error() -> None:
    posterior = MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 0.9], [0.9, 1.0]]))
    found = weigh(posterior, posterior)
    assert found.k_hat == -math.inf
    assert found.reliable
    assert found.effective == pytest.approx(DRAWS)
    constant = weigh(gaussian(1.0), gaussian(1.0))
    assert constant.reliable


def test_rounding_of_single_precision_is_no_tail() -> None:
    """Log densities of thousands of nats in float32 differ in the last digit, which is no heavy tail."""
    rng = np.random.default_rng(0)
    log_q = rng.normal(size=2000)
    log_weights, k_hat = smoothed_log_weights(log_q + 5e-5 * rng.normal(size=2000), log_q)
    assert k_hat == -math.inf
    assert np.ptp(log_weights) == 0


def test_mean_field_on_a_correlated_posterior_is_heavy_tailed_and_full_rank_is_not() -> None:
    """In the direction of the largest variance the best diagonal Gaussian is 1 / sqrt(1 - c) times too narrow."""
    correlation = 0.95
    posterior = MultivariateNormal(torch.zeros(2).double(), torch.tensor([[1, correlation], [correlation, 1]]).double())
    optimum = Independent(Normal(torch.zeros(2).double(), math.sqrt(1 - correlation**2)), 1)  # least KL(q || p)
    found = [weigh(posterior, optimum, 4000, seed) for seed in range(8)]
    assert np.mean([one.k_hat for one in found]) > found[0].threshold
    assert all(min(one.spread) < 0.75 for one in found)
    nearly = MultivariateNormal(torch.full((2,), 0.05).double(), 1.05 * posterior.covariance_matrix)
    assert all(weigh(posterior, nearly, 1000, seed).k_hat < 0.2 for seed in range(8))


def test_a_guide_off_its_posterior_is_pulled_towards_it() -> None:
    found = weigh(gaussian(1.0), gaussian(1.0, mean=-1.5))
    assert found.shift[0] == pytest.approx(1.5, abs=0.2)


def test_what_is_not_finite_is_not_believed() -> None:
    log_q = np.zeros(100)
    for bad in (np.nan, np.inf):
        log_p = np.zeros(100)
        log_p[3] = bad
        found = importance(log_p, log_q, np.ones((100, 1)))
        assert math.isnan(found.k_hat)
        assert not found.reliable


def test_threshold_and_too_few_draws() -> None:
    assert k_threshold(100) == pytest.approx(0.5)
    assert k_threshold(1_000_000) == 0.7
    with pytest.raises(ValueError, match="25 draws"):
        importance(np.zeros(10), np.zeros(10), np.zeros((10, 1)))


def covered_by(shift: float) -> float:
    """Posterior probability of the 90 % interval of a Gaussian of the right width that is off by so many sds."""
    return float(stats.norm.cdf(1.645 - shift) - stats.norm.cdf(-1.645 - shift))


@pytest.mark.parametrize("shift", [0.0, 0.25, 0.5, 1.0, 1.25, 1.5])
@pytest.mark.parametrize(("draws", "size"), [(400, 2), (1000, 2), (1000, 4)])
def test_a_guide_of_the_right_width_that_is_off_is_condemned_by_what_it_covers(
    shift: float, draws: int, size: int
) -> None:
    """K-hat is low; shift and coverage come to the closed form, and decide between 0.5 and 1.25."""
    found = []
    for seed in range(40):
        z = np.random.default_rng(seed).standard_normal((draws, size)) + np.eye(size)[0] * shift
        off = np.eye(size)[0] * shift
        found.append(importance(stats.norm.logpdf(z).sum(1), stats.norm.logpdf(z - off).sum(1), z))
    assert np.mean([one.k_hat for one in found]) < found[0].threshold
    assert np.mean([one.distance for one in found]) == pytest.approx(shift, abs=0.1)
    assert np.mean([one.covered for one in found]) == pytest.approx(covered_by(shift), abs=0.03)
    condemned = sum(one.off for one in found)
    assert condemned == 0 if shift <= 0.5 else condemned >= (35 if shift == 1 else 40)


def test_the_error_of_the_covered_share_is_as_documented() -> None:
    for shift, error in ((0.5, 0.13), (1.0, 0.45), (1.5, 0.9)):
        covered = []
        for seed in range(200):
            z = np.random.default_rng(seed).standard_normal((400, 1)) + shift
            covered.append(importance(stats.norm.logpdf(z)[:, 0], stats.norm.logpdf(z - shift)[:, 0], z).covered)
        assert np.std(covered) * 20 == pytest.approx(error, rel=0.25)


def test_the_shift_is_found_along_any_direction() -> None:
    """Off by 1.5 along the narrow direction of a correlated posterior: by less than 0.7 along either axis."""
    covariance = np.array([[1.0, 0.95], [0.95, 1.0]])
    root = np.linalg.cholesky(covariance)
    off = 1.5 * np.sqrt(0.05) * np.array([1.0, -1.0]) / np.sqrt(2)
    z = np.random.default_rng(0).standard_normal((2000, 2)) @ root.T + off
    posterior = stats.multivariate_normal(np.zeros(2), covariance)
    found = importance(posterior.logpdf(z), posterior.logpdf(z - off), z)
    assert max(map(abs, found.shift)) < 0.7
    assert found.distance == pytest.approx(1.5, abs=0.15)
    assert found.off


def test_a_wide_guide_may_be_off_by_more_and_still_covers() -> None:
    found = weigh(gaussian(0.3), gaussian(1.0, mean=-1.0))
    assert found.distance == pytest.approx(1.0, abs=0.1)
    assert found.covered > 0.9
    assert not found.off


def test_a_few_draws_of_an_improbable_hypothesis_do_not_make_a_belief_wide() -> None:
    """2 of 100 draws come from a hypothesis 50 times as wide: by moments all are 7 times as wide, a shift is lost"""
    rng = np.random.default_rng(0)
    other = rng.uniform(size=2000) < 0.02
    for shift in (0.0, 1.5):
        e = np.where(other, rng.standard_normal(2000), 0.02 * (rng.standard_normal(2000) + shift))[:, None]
        log_q = np.logaddexp(
            np.log(0.98) + stats.norm.logpdf(e[:, 0], 0.02 * shift, 0.02), np.log(0.02) + stats.norm.logpdf(e[:, 0])
        )
        found = importance(stats.norm.logpdf(e[:, 0], 0, 0.02), log_q, e)
        assert found.spread[0] == pytest.approx(1, abs=0.15)
        assert found.off == (shift > 0)


def test_a_single_draw_with_all_the_weight_is_a_tail_without_end_and_a_bounded_top_is_none() -> None:
    for size in (100.0, 1e4, 1e6):  # nats by which draws differ
        _, k_hat = smoothed_log_weights(size * np.random.default_rng(0).normal(size=400), np.zeros(400))
        assert k_hat > 1
    half = np.where(np.arange(400) < 200, 0.0, -3.0)
    log_weights, k_hat = smoothed_log_weights(half, np.zeros(400))
    assert k_hat == -math.inf
    assert np.array_equal(log_weights, half)
