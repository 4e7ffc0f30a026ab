"""Scores of forecasts against closed forms."""

import math

import pytest
import torch
from scipy.stats import binom
from torch.distributions import Normal

from pyro_dynamics.diagnostics.prediction.predictive import coverage
from pyro_dynamics.diagnostics.prediction.scores import crps, energy_score, rank_pit

STANDARD = Normal(torch.tensor(0.0), torch.tensor(1.0))


def gaussian_crps(error: float) -> float:
    """Of N(0, 1) (Gneiting and Raftery 2007, Eq. 21)."""
    z = torch.tensor(error)
    return float(z * (2 * STANDARD.cdf(z) - 1) + 2 * STANDARD.log_prob(z).exp() - 1 / math.sqrt(math.pi))


@pytest.mark.parametrize("error", [0.0, 0.7, -2.0])
def test_crps_of_a_gaussian_is_the_closed_form(error: float, generator: torch.Generator) -> None:
    draws = torch.randn(4000, 3, generator=generator)
    found = crps(draws, torch.full((3,), error))
    assert found.tolist() == pytest.approx([gaussian_crps(error)] * 3, abs=0.03)


def test_crps_is_unbiased_in_the_number_of_draws(generator: torch.Generator) -> None:
    few = crps(torch.randn(4, 20_000, generator=generator), torch.zeros(20_000)).mean()
    assert float(few) == pytest.approx(gaussian_crps(0.0), abs=0.01)
    assert crps(torch.tensor([[2.0], [2.0]]), torch.tensor([5.0])) == pytest.approx(3.0)  # a point: absolute error


def test_energy_score_of_one_dimension_is_the_crps(generator: torch.Generator) -> None:
    draws, observed = torch.randn(50, 6, 1, generator=generator), torch.randn(6, 1, generator=generator)
    assert torch.allclose(energy_score(draws, observed), crps(draws, observed)[:, 0], atol=1e-5)


def test_coverage_of_a_calibrated_forecast_is_binomial(generator: torch.Generator) -> None:
    """Forecast and truth from one distribution; a forecast of half the width covers too little."""
    count, particles = 2000, 199
    location = torch.randn(count, generator=generator)
    observed = location + torch.randn(count, generator=generator)
    draws = location + torch.randn(particles, count, generator=generator)
    low, high = binom.interval(0.999, count, 0.9)
    inside = float(coverage(rank_pit(draws, observed)[:, None]).sum())
    assert low <= inside <= high
    narrow = location + 0.5 * (draws - location)
    assert float(coverage(rank_pit(narrow, observed)[:, None]).sum()) < low


def test_rank_pit_stays_inside_and_splits_ties() -> None:
    draws = torch.tensor([[0.0], [0.0], [0.0]])
    assert rank_pit(draws, torch.tensor([9.0])).item() == pytest.approx(3.5 / 4)
    assert rank_pit(draws, torch.tensor([0.0])).item() == pytest.approx(0.5)
