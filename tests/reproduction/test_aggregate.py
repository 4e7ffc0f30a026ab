"""Aggregates against closed forms, known effects, and what their intervals cover."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from pyro_dynamics.errors import UserError
from pyro_dynamics.reports.reproduction_report import final_table
from pyro_dynamics.reproduction import aggregate
from pyro_dynamics.reproduction.score_rows import Scores, by_seed, seed_gains, strata


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    """Too few runs, constant samples and missing agents are no reason for noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def row(agent: str, seed: int, context: Any, value: float, **other: Any) -> dict[str, Any]:
    defaults = {"family": "tilt", "preset": "cpu", "split": "test", "checkpoint": 4, "episode": 0}
    return {**defaults, "agent": agent, "seed": seed, "context": context, "return": value, **other}


def random_rows(base: dict[Any, float]) -> list[dict[str, Any]]:
    """Two random episodes in each context, whose mean is ``base``."""
    return [
        row("random", 0, context, level + off, checkpoint=None, episode=episode)
        for context, level in base.items()
        for episode, off in enumerate((-5.0, 5.0))
    ]


def test_share_of_the_ceiling_is_of_what_the_true_dynamics_reach() -> None:
    """It is measured once, and stands beside each checkpoint; the random policy is at 0 in each context."""
    rows = random_rows({1: 10.0, 2: 20.0})
    rows += [row("latent", 0, 1, 60.0, checkpoint=at) for at in (4, 8)]
    rows += [row("latent", 0, 2, 95.0, checkpoint=at) for at in (4, 8)]
    for seed, value in enumerate((100.0, 120.0)):
        rows += [row("true-dynamics", seed, context, value + context, checkpoint=None) for context in (1, 2)]
    scores = Scores(rows, "tilt")
    assert scores.shares("latent", "test", 8).values[0] == pytest.approx([50 / 101, 75 / 92])
    assert scores.shares("true-dynamics", "test", 4).mean("seed").values == pytest.approx([1.0, 1.0])
    assert scores.checkpoints("test") == [4, 8]
    assert "share of the ceiling" in final_table(scores, "test", 8).head
    without = Scores([one for one in rows if one["agent"] != "true-dynamics"], "tilt")
    assert "share of the ceiling" not in final_table(without, "test", 8).head


def test_interval_of_a_mean_is_that_of_normal_theory() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    found = aggregate.mean(values)
    assert found.value == pytest.approx(values.mean())
    reach = norm.ppf(0.975) * values.std() / math.sqrt(len(values))
    # The standard error of the 2.5 % quantile of 500 draws is 6 % of the reach.
    expected = (values.mean() - reach, values.mean() + reach)
    assert (found.low, found.high) == pytest.approx(expected, abs=0.18 * reach)


@pytest.mark.parametrize(
    ("estimate", "count", "expected"), [("student", 5, 0.95), ("mean", 5, 0.84), ("mean", 60, 0.945)]
)
def test_coverage_is_as_documented(estimate: str, count: int, expected: float) -> None:
    """Student's interval keeps its word with few runs; the paper's does with many, and covers 84 % with 5."""
    rng, trials = np.random.default_rng(1), 400
    inside = 0
    for _ in range(trials):
        found = getattr(aggregate, estimate)(rng.normal(size=count))
        inside += found.low <= 0 <= found.high
    low, high = binom.interval(0.999, trials, expected)
    assert low <= inside <= high


def test_iqm_is_the_mean_of_the_middle_half_of_all_runs() -> None:
    rng = np.random.default_rng(2)
    samples = [rng.normal(size=4) for _ in range(6)]
    middle = np.sort(np.concatenate(samples))[6:18]
    found = aggregate.interquartile_mean(samples)
    assert found.value == pytest.approx(middle.mean())
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    outlier = [*samples[:-1], samples[-1] + 1e6 * (samples[-1] == max(map(np.max, samples)))]
    assert aggregate.interquartile_mean(outlier).value == pytest.approx(middle.mean())


def test_iqm_resamples_each_environment_by_itself() -> None:
    """Levels of environments far apart, each the same in all its runs: nothing varies within a stratum."""
    samples = [np.full(5, level) for level in (0.0, 10.0, 20.0, 30.0)]
    found = aggregate.interquartile_mean(samples)
    assert (found.low, found.value, found.high) == (15.0, 15.0, 15.0)


def test_iqm_of_unequal_numbers_of_runs() -> None:
    found = aggregate.interquartile_mean([np.array([1.0, 2.0, 3.0]), np.array([4.0, np.nan, 5.0])])
    assert found.value == pytest.approx(3.0)
    assert found.count == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([2.0, 3.0], [0.0, 1.0], 1.0),
        ([0.0, 1.0], [2.0, 3.0], 0.0),
        ([1.0, 1.0, 1.0], [1.0, 1.0], 0.5),
        ([0.0, 2.0], [1.0, 1.0], 0.5),
        ([1.0, 3.0, 5.0], [0.0, 4.0], 4 / 6),
    ],
)
def test_probability_of_improvement_is_the_share_of_pairs(
    ours: list[float], theirs: list[float], expected: float
) -> None:
    found = aggregate.improvement([np.array(ours)], [np.array(theirs)])
    assert found.value == pytest.approx(expected)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= expected <= found.high <= 1


def test_probability_of_improvement_is_a_mean_over_environments() -> None:
    better, worse = np.array([2.0, 3.0]), np.array([0.0, 1.0])
    assert aggregate.improvement([better, worse], [worse, better]).value == pytest.approx(0.5)
    assert aggregate.improvement([better, better, worse], [worse, worse, better]).value == pytest.approx(2 / 3)


def test_same_values_give_the_same_interval() -> None:
    samples = list(np.random.default_rng(3).normal(size=(3, 5)))
    for number in (lambda: aggregate.mean(samples[0]), lambda: aggregate.interquartile_mean(samples)):
        assert number() == number()
    assert aggregate.improvement(samples, samples[::-1]) == aggregate.improvement(samples, samples[::-1])


def test_too_few_runs_have_no_interval_and_constant_ones_a_point() -> None:
    for found in (aggregate.mean([2.0]), aggregate.mean([2.0, math.nan]), aggregate.student([2.0])):
        assert (found.value, found.low, found.high, found.count) == (2.0, None, None, 1)
        assert found.text() == "2.00"
    assert aggregate.interquartile_mean([np.array([2.0]), np.array([4.0])]).value == 3.0
    assert aggregate.improvement([np.array([2.0])], [np.array([1.0, 0.0])]) == aggregate.Estimate(1.0, count=1)
    for found in (aggregate.mean([2.0] * 4), aggregate.student([2.0] * 4)):
        assert (found.low, found.value, found.high) == (2.0, 2.0, 2.0)


def test_nothing_gives_nan() -> None:
    empty = np.array([])
    for found in (
        aggregate.mean([]),
        aggregate.student([math.nan]),
        aggregate.interquartile_mean([]),
        aggregate.interquartile_mean([empty, np.ones(3)]),
        aggregate.improvement([empty], [np.ones(3)]),
        aggregate.improvement([], []),
    ):
        assert math.isnan(found.value)
        assert (found.low, found.high, found.text()) == (None, None, "-")


def test_band_is_an_interval_for_each_column() -> None:
    runs = np.random.default_rng(4).normal(size=(5, 2, 3))
    runs[1:, 1, 2], runs[:, 0, 0] = np.nan, np.nan
    found = aggregate.band(runs)
    assert found.shape == (3, 2, 3)
    expected = aggregate.mean(runs[:, 0, 1])
    assert found[:, 0, 1].tolist() == [expected.value, expected.low, expected.high]
    assert found[0, 1, 2] == runs[0, 1, 2]
    assert np.isnan(found[1:, 1, 2]).all()
    assert np.isnan(found[:, 0, 0]).all()
    assert aggregate.band(np.empty((0, 4))).shape == (3, 4)


def test_paired_differences_are_tighter_where_seeds_share_noise() -> None:
    rng = np.random.default_rng(5)
    shared, own = rng.normal(0, 50, 6), rng.normal(0, 2, (2, 6))
    rows = random_rows({0: 0.0})
    for agent, level, noise in (("latent", 510.0, own[0]), ("generalist", 500.0, own[1])):
        rows += [row(agent, seed, 0, level + shared[seed] + noise[seed]) for seed in range(6)]
    scores = Scores(rows, "tilt")
    paired = aggregate.mean(seed_gains(scores, "test", 4).values)
    ours, theirs = (
        aggregate.mean(by_seed(scores.scores(agent, "test", 4)).values) for agent in ("latent", "generalist")
    )
    assert None not in (paired.low, paired.high, ours.low, ours.high, theirs.low, theirs.high)
    assert paired.value == pytest.approx(ours.value - theirs.value)
    assert paired.high - paired.low < 0.2 * min(ours.high - ours.low, theirs.high - theirs.low)  # type: ignore[operator]
    assert paired.low > 0  # type: ignore[operator]


def test_only_seeds_that_both_have_are_paired() -> None:
    rows = random_rows({-6: 0.0, 6: 0.0})
    for seed in range(4):
        rows += [row("latent", seed, context, 100.0 + seed) for context in (-6, 6)]
    for seed in range(1, 6):  # seed 2 lacks a context
        rows += [row("generalist", seed, context, 50.0) for context in (-6, 6) if (seed, context) != (2, 6)]
    scores = Scores(rows, "tilt")
    assert seed_gains(scores, "test", 4)["seed"].values.tolist() == [1, 3]
    assert seed_gains(scores, "test", 4, other="nobody").size == 0


def test_score_is_0_for_random_and_1_for_the_best_mean_over_seeds() -> None:
    rows = random_rows({-6: -20.0, 6: 40.0})
    for seed, off in enumerate((-10.0, 10.0)):
        for context, best in ((-6, 180.0), (6, 240.0)):
            rows.append(row("latent", seed, context, best + off, checkpoint=10))
            rows.append(row("latent", seed, context, best - 90 + off, checkpoint=4))
            rows.append(row("generalist", seed, context, best - 50 + off, checkpoint=10))
            rows.append(row("oracle", seed, context, best + 100 + off, checkpoint=10))  # moves no scale
    scores = Scores(rows, "tilt")
    assert scores.random == {"-6": -20.0, "6": 40.0}
    assert scores.best("test").values.tolist() == [180.0, 240.0]
    assert scores.scores("latent", "test", 10).values == pytest.approx(np.array([[0.95, 0.95], [1.05, 1.05]]))
    assert by_seed(scores.scores("generalist", "test", 10)).values == pytest.approx([0.70, 0.80])
    assert by_seed(scores.scores("oracle", "test", 10)).values == pytest.approx([1.45, 1.55])
    assert [sample.tolist() for sample in strata(scores.scores("latent", "test", 10))] == [
        pytest.approx([0.95, 1.05])
    ] * 2


def test_training_is_scaled_by_the_best_round_or_by_the_specialist() -> None:
    rows = random_rows({0: 0.0})
    for seed in (0, 1):
        curves = {"latent": [0, 50, 300, 200, 200, 200, 200, 200], "specialist": [0, 10, 10, 80, 90, 100, 110, 120]}
        for agent, curve in curves.items():
            rows += [
                row(agent, seed, 0, value + seed - 0.5, split="train", checkpoint=None, episode=episode)
                for episode, value in enumerate(curve)
            ]
    scores = Scores(rows, "tilt")
    assert scores.best("train").item() == 300
    assert scores.specialist().item() == 100  # the mean of 80 to 120
    assert scores.final("latent", "train").mean().item() == pytest.approx((4 * 200 + 200) / 5)
    scaled = by_seed(scores.normalised(scores.returns("latent", "train"), scores.specialist()))
    assert scaled.mean("seed").values == pytest.approx(np.array([0, 50, 300, 200, 200, 200, 200, 200]) / 100)


def test_final_is_the_last_episode_and_the_mean_in_a_changing_environment() -> None:
    rows = [
        row("latent", 0, "0:-6,100:6", value, split="dynamic", episode=e) for e, value in enumerate((1.0, 2.0, 6.0))
    ]
    rows += [row("latent", seed, 3, 10.0 * e, episode=e) for seed, count in ((0, 3), (1, 2)) for e in range(count)]
    scores = Scores(rows, "tilt")
    assert scores.final("latent", "dynamic", 4).item() == 3.0
    assert scores.final("latent", "test", 4).values.ravel().tolist() == [20.0, pytest.approx(math.nan, nan_ok=True)]


def test_contexts_without_a_scale_are_left_out() -> None:
    """In context 9 nobody is better than random; context 15 has no random policy."""
    rows = random_rows({3: 0.0, 9: 200.0})
    rows += [
        row(agent, seed, context, 100.0)
        for agent in ("latent", "generalist")
        for seed in (0, 1)
        for context in (3, 9, 15)
    ]
    scores = Scores(rows, "tilt")
    assert scores.unscaled("test") == ["9", "15"]
    assert scores.scores("latent", "test", 4)["context"].values.tolist() == ["3"]
    assert Scores([one for one in rows if one["agent"] != "random"], "tilt").scores("latent", "test", 4).size == 0


def test_numbers_are_in_order_names_as_they_come_and_lists_too() -> None:
    for given, expected in (
        ([12, -6.0, 0], ["-6", "0", "12"]),
        (["short", "long", "back"], ["short", "long", "back"]),
        ([[1.5, 0.8], [0.5, 2.0]], ["0.5,2", "1.5,0.8"]),
    ):
        assert list(Scores([row("latent", 0, context, 1.0) for context in given], "tilt").contexts("test")) == expected


def test_random_episodes_of_a_reference_family_are_used() -> None:
    rows = [*random_rows({0: 10.0}), row("latent", 0, 0, 110.0, family="tilt-6", split="ablation")]
    assert Scores(rows, "tilt-6").unscaled("ablation") == ["0"]
    assert Scores(rows, "tilt-6", "tilt").scores("latent", "ablation", 4).item() == 1.0


def test_no_rows_are_no_fault() -> None:
    scores = Scores([], "tilt")
    assert scores.agents("train") == scores.checkpoints("test") == scores.unscaled("test") == []
    assert (
        scores.best("train").size == scores.specialist().size == by_seed(scores.scores("latent", "test", 4)).size == 0
    )


def test_damaged_and_mixed_rows_are_refused() -> None:
    with pytest.raises(UserError, match="has no seed"):
        Scores([{key: value for key, value in row("latent", 0, 0, 1.0).items() if key != "seed"}], "tilt")
    with pytest.raises(UserError, match="several presets: cpu, paper"):
        Scores([row("latent", 0, 0, 1.0), row("latent", 1, 0, 1.0, preset="paper")], "tilt")
