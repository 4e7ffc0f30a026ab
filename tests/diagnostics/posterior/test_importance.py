"""K-hat against theory, and what the weights say of a guide that is wrong in a known way."""

import math

import numpy as np
import pytest
import torch
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
