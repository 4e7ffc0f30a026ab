"""Verdicts: the right word for each kind of fault, and none for what is well."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal

from pyro_dynamics.diagnostics.diagnosis import PosteriorQuality
from pyro_dynamics.diagnostics.posterior.importance import importance
from pyro_dynamics.diagnostics.posterior.missed_mass import Missed
from pyro_dynamics.diagnostics.prediction.held_out import PredictionQuality, unit_scale
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.troubles import Trouble, wrong_posterior
from pyro_dynamics.diagnostics.verdict import Verdict, Word, judge_posterior, judge_stream

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
    assert narrow.word == "overconfident"
    assert "too narrow" in narrow.why
    wide = judge_posterior(quality(gaussian(), gaussian(sd=3.0)), WELL)
    assert wide.word == "believe, but over-dispersed"
    assert judge_posterior(right, replace(WELL, gap=-0.1)).word == "collapsed"
    assert judge_posterior(right, replace(WELL, gap=-0.1), used_elsewhere=True).word == "do not believe"
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


def test_a_stream_is_judged_at_its_end_and_the_most_serious_cause_gives_the_word() -> None:
    off, narrow = Trouble(60, 99, "k-hat", "off"), Trouble(70, 99, "coverage", "narrow")
    over, early = Trouble(10, 40, "outside", "beyond"), Trouble(2, 8, "off", "early")
    off = Trouble(60, 99, "off", "off")
    assert judge_stream(100, [off]).title == "do not believe since step 60"
    assert judge_stream(100, [Trouble(50, 60, "coverage", "first"), off]).since == 50  # one follows the other
    assert judge_stream(100, [narrow]).title == "believe the latent only since step 70"
    both = judge_stream(100, [over, off, narrow, early])
    assert both.word == "do not believe"
    assert both.reasons == [
        *("since step 60: off", "since step 70: narrow"),
        *("in the past, steps 2 to 8: early", "in the past, steps 10 to 40: beyond"),
    ]
    again = judge_stream(100, [over], well=["it was"])
    assert (again.title, again.reasons) == (
        "believe again since step 41",
        ["it was", "in the past, steps 10 to 40: beyond"],
    )
    assert judge_stream(100, [], wide="wide").title == "believe, but over-dispersed"
    for kind, word in (
        ("narrow", "overconfident"),
        ("uninformed", "uninformed"),
        ("stale", "stale"),
        ("biased", "do not believe"),
        ("far", "out of the trained range"),
    ):
        assert judge_stream(100, [Trouble(70, 99, kind, "so")]).word == word
    assert judge_stream(100, [], well=["it was"]) == Verdict(Word.BELIEVE, ["it was"])


def test_an_agent_without_a_latent_has_predictions_alone_to_be_judged_by() -> None:
    assert judge_stream(100, [], has_latent=False).word == "no posterior"
    assert judge_stream(100, [Trouble(70, 99, "coverage", "narrow")], has_latent=False).word == "do not believe"


def test_what_beliefs_alone_show_goes_with_k_hat_into_one_word() -> None:
    steps, apart = 120, np.array([[-1.0], [1.0]])
    calm = Stream(
        np.zeros((steps, 1)), np.full((steps, 1), 0.5), np.zeros(steps), np.full((steps, 1), 0.5), apart, apart
    )
    well = replace(calm, trained_scale=np.full((2, 1), 0.1))
    off = Trouble(60, steps - 1, "k-hat", "off")
    assert judge_stream(steps, [], well).word == "believe"
    collapsed = judge_stream(steps, [off], replace(well, trained_mean=0.01 * apart))
    assert (collapsed.word, len(collapsed.reasons)) == ("collapsed", 1)
    far = judge_stream(steps, [off], replace(well, mean=well.mean + 9))
    assert (far.word, far.reasons[1:], far.since) == ("out of the trained range", ["since step 60: off"], 60)
    unchanged = replace(well, scale=np.ones((steps, 1)))
    assert judge_stream(steps, [], unchanged).word == "collapsed"
    informed = Trouble(60, steps - 1, "uninformed", "the data say more")
    assert judge_stream(steps, [informed], unchanged).word == "uninformed"


@pytest.mark.parametrize(
    ("gap", "p", "elsewhere", "word"),
    [
        (0.004, 0.4, False, "collapsed"),
        (0.004, 0.4, True, "believe"),
        (0.065, 0.01, False, "believe"),
        (-0.3, 0.01, True, "do not believe"),
        (-0.3, 0.01, False, "collapsed"),
    ],
)
def test_a_gain_over_permuted_latents_that_may_be_chance_is_none(
    gap: float, p: float, elsewhere: bool, word: str
) -> None:
    predictions = replace(WELL, gap=gap, gap_p=p)
    assert judge_posterior(quality(gaussian(), gaussian()), predictions, elsewhere).word == word


def test_a_guide_of_the_right_width_that_is_off_is_not_believed() -> None:
    for seed in range(80):
        off = judge_posterior(quality(gaussian(), shifted(1.5), seed), WELL)
        assert off.word == "do not believe"
        assert "its 90 % interval covers" in off.why
        assert judge_posterior(quality(gaussian(), shifted(0.5), seed), WELL).word == "believe"


def shifted(by: float) -> MultivariateNormal:
    return MultivariateNormal(torch.tensor([by, 0.0]).double(), torch.eye(2).double())


def test_a_mode_that_the_guide_misses_has_a_reason_of_its_own() -> None:
    right = quality(gaussian(), gaussian())
    missed = judge_posterior(replace(right, missed=Missed(0.35, 0.03, 40.0, "the latent of gravity 4")), WELL)
    assert missed.word == "do not believe"
    assert "35% of the posterior lies where the belief has no draws, near the latent of gravity 4" in missed.why
    little = replace(right, missed=Missed(0.35, 0.15, 40.0, "the latent of gravity 4"))
    assert judge_posterior(little, WELL).word == "believe"


def test_k_hat_alone_condemns_only_where_nothing_can_be_read() -> None:
    right = quality(gaussian(), gaussian())
    for k_hat, word in ((0.8, "believe"), (1.2, "do not believe")):
        tail = replace(right.importance, k_hat=k_hat, effective=400.0, spread=[1.0, 0.95])
        verdict = judge_posterior(replace(right, importance=tail), WELL)
        assert verdict.word == word
        assert f"k-hat {k_hat:.2f} > 0.67: from so few draws that is rough" in verdict.why


def test_k_hat_alone_must_last_along_a_stream() -> None:
    well = quality(gaussian(), gaussian()).importance
    tail = replace(well, k_hat=1.2, effective=400.0, spread=[1.0, 0.95])
    steps, since = [9, 19, 29, 39], [0] * 40
    assert wrong_posterior(steps, [well, well, tail, tail], since) == []
    (found,) = wrong_posterior(steps, [well, tail, tail, tail], since)
    assert (found.first, found.last, found.kind) == (19, 39, "k-hat")
    assert wrong_posterior(steps, [well, replace(tail, k_hat=0.8)] * 2, since) == []
