"""Verdicts: the right word for each kind of fault, and none for what is well."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from pyro_dynamics.diagnostics.diagnosis import PosteriorQuality
from pyro_dynamics.diagnostics.posterior.importance import importance
from pyro_dynamics.diagnostics.prediction.held_out import PredictionQuality, unit_scale
from pyro_dynamics.diagnostics.verdict import judge_posterior

WELL = PredictionQuality(
    transitions=200,
    log_likelihood=3.0,
    coverage=0.91,
    crps=[0.1],
    energy=0.2,
    coverage_by_horizon=[0.9],
    crps_by_horizon=[0.1],
    gap=2.0,
)


def quality(posterior: Distribution, guide: Distribution, seed: int = 0, draws: int = 1000) -> PosteriorQuality:
    torch.manual_seed(seed)
    e = guide.sample(torch.Size([draws]))
    found = importance(posterior.log_prob(e).double().numpy(), guide.log_prob(e).double().numpy(), e.numpy())
    return PosteriorQuality(found, divergence=3.0, elpd=-1.0, elpd_se=0.1, unstable=0.0)


def gaussian(correlation: float = 0.0, mean: float = 0.0, sd: float = 1.0) -> MultivariateNormal:
    covariance = sd**2 * torch.tensor([[1, correlation], [correlation, 1]]).double()
    return MultivariateNormal(torch.full((2,), mean).double(), covariance)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("correlation", [0.9, 0.95, -0.98])
def test_mean_field_on_a_correlated_posterior_is_flagged_and_full_rank_is_not(correlation: float, seed: int) -> None:
    optimum = Independent(Normal(torch.zeros(2).double(), math.sqrt(1 - correlation**2)), 1)
    assert judge_posterior(quality(gaussian(correlation), optimum, seed), WELL).word in (
        "do not believe",
        "overconfident",
    )
    fitted = gaussian(correlation, mean=0.03, sd=1.02)
    assert judge_posterior(quality(gaussian(correlation), fitted, seed), WELL).word == "believe"
    assert judge_posterior(quality(gaussian(correlation), gaussian(correlation), seed), WELL).word == "believe"


@pytest.mark.parametrize("seed", range(10))
def test_a_guide_that_is_only_wide_is_believed_with_enough_draws(seed: int) -> None:
    for wide, draws in [(8.0, 1000), (12.0, 4000)]:
        few = quality(gaussian(), gaussian(sd=wide), seed, draws)
        assert few.importance.reliable or few.importance.only_wide
        if not few.importance.reliable:
            assert "give more by --draws" in judge_posterior(few, WELL).why
        more = quality(gaussian(), gaussian(sd=wide), seed, 4 * draws)
        assert judge_posterior(more, WELL).word == "believe, but over-dispersed"
    for faulty in (gaussian(mean=4.0), gaussian(sd=0.3)):
        assert not quality(gaussian(), faulty, seed).importance.only_wide


def test_each_fault_has_its_words() -> None:
    right = quality(gaussian(), gaussian())
    off = judge_posterior(quality(gaussian(), gaussian(mean=4.0)), WELL)
    assert off.word == "do not believe"
    assert "off its posterior" in off.why
    narrow = judge_posterior(quality(gaussian(), gaussian(sd=0.3)), WELL)
    assert narrow.word == "do not believe"
    assert "too narrow" in narrow.why
    wide = judge_posterior(quality(gaussian(), gaussian(sd=3.0)), WELL)
    assert wide.word == "believe, but over-dispersed"
    assert judge_posterior(right, replace(WELL, gap=-0.1)).word == "collapsed"
    assert judge_posterior(right, replace(WELL, gap=None)).word == "believe"
    assert judge_posterior(right, replace(WELL, coverage=0.6)).word == "believe the latent only"
    assert judge_posterior(None, WELL).word == "no posterior"
    heavy = replace(right, importance=replace(right.importance, k_hat=1.4, effective=970.0))
    assert judge_posterior(heavy, WELL).word == "believe"
    thin = replace(right, importance=replace(right.importance, k_hat=1.4, effective=300.0, spread=[1.9, 1.5]))
    assert "too narrow" not in judge_posterior(thin, WELL).why
    broken = replace(right, importance=replace(right.importance, k_hat=math.nan))
    assert "not finite" in judge_posterior(broken, WELL).why


def test_unit_scale_of_a_constant_column_is_one() -> None:
    values = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert np.allclose(unit_scale(values), [1.0, 1.0])
    assert np.allclose(unit_scale(torch.tensor([[0.0], [4.0]])), [2.0])
