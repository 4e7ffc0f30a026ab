"""Each case is made on purpose: a stream of numbers of which it is known what is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from pyro_dynamics.diagnostics.stream.checks import RECENT, Stream, recent
from pyro_dynamics.diagnostics.verdict import Word, findings

STEPS = 200
TRAINED = np.outer([-1.0, -0.5, 0.0, 0.5, 1.0], [0.6, 0.8])
"""Five trained latents on a line; neighbours lie 0.5 apart."""


def healthy(seed: int = 0, steps: int = STEPS) -> Stream:
    """A belief about a context between two trained ones: it is found, its sd falls as it should, predictions hold."""
    rng = np.random.default_rng(seed)
    scale = np.repeat(1 / np.sqrt(1 + 4 * np.arange(1, steps + 1))[:, None], 2, axis=1)
    # The posterior mean of a Gaussian: truth + noise, where old noise is averaged away.
    noise = np.cumsum(rng.normal(size=(steps, 2)) * 0.5, axis=0) / np.arange(1, steps + 1)[:, None]
    return Stream(
        mean=np.array([0.15, 0.2]) + noise * 0.5,
        scale=scale,
        log_likelihood=rng.normal(6.0, 0.5, steps),
        pit=rng.uniform(size=(steps, 2)),
        trained_mean=TRAINED,
        trained_scale=np.full((5, 2), 0.02),
        trained_log_likelihood=6.0,
    )


def states(stream: Stream) -> list[Word]:
    return [word for word, _ in findings(stream)]


def missing(share: float, since: int, seed: int = 1) -> np.ndarray:
    """PIT values that lie outside the 90 % intervals in this share of cases since a step."""
    rng = np.random.default_rng(seed)
    pit = rng.uniform(0.06, 0.94, size=(STEPS, 2))
    return np.where((rng.uniform(size=pit.shape) < share) & (np.arange(STEPS) >= since)[:, None], 0.999, pit)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_found_in_a_healthy_belief_at_any_step(seed: int) -> None:
    stream = healthy(seed)
    for steps in (1, 10, RECENT - 1, RECENT, 2 * RECENT - 1, 2 * RECENT, 2 * RECENT + 1, 3 * RECENT, STEPS):
        cut = {name: getattr(stream, name)[:steps] for name in ("mean", "scale", "log_likelihood", "pit")}
        assert findings(replace(stream, **cut)) == []
        why = recent(replace(stream, **cut))
        assert "90 % intervals" in why
        assert ("show little" in why) == (steps < RECENT)


def test_trained_latents_that_lie_within_each_others_spread_are_collapsed() -> None:
    ((word, why),) = findings(replace(healthy(), trained_scale=np.full((5, 2), 0.9)))
    assert word == "collapsed"
    assert "1.6 of their own standard deviations" in why  # 2 / sqrt(0.9^2 + 0.9^2)


def test_a_belief_that_stays_at_the_prior_is_collapsed() -> None:
    stream = replace(healthy(), scale=np.full((STEPS, 2), 0.97), mean=np.zeros((STEPS, 2)))
    ((word, why),) = findings(stream)
    assert word == "collapsed"
    assert f"after {STEPS} steps" in why
    assert "0.97 of the prior's" in why
    assert states(replace(stream, prior_scale=3.0)) == []
    one_used = np.stack([np.full(STEPS, 0.97), healthy().scale[:, 0]], axis=1)
    assert states(replace(stream, scale=one_used)) == []  # a dimension too many is no collapse


def test_a_belief_far_outside_the_trained_latents_is_out_of_range() -> None:
    stream = healthy()
    assert states(replace(stream, mean=stream.mean + np.array([1.2, 1.6]))) == ["out of the trained range"]
    beyond_one = replace(stream, mean=stream.mean + np.array([0.75, 1.0]))  # half a distance outside: extrapolation
    assert states(beyond_one) == []
    unsure = replace(stream, mean=stream.mean + np.array([1.2, 1.6]), scale=np.full((STEPS, 2), 0.8))
    assert states(unsure) == []


def test_a_belief_that_jumps_and_predicts_badly_is_overconfident() -> None:
    stream = healthy()
    mean = stream.mean + np.sin(np.arange(STEPS) / 8)[:, None] * np.array([0.3, 0.4])  # to and fro, by many sds
    jumping = replace(stream, mean=mean)
    assert states(jumping) == []  # one sign alone is none
    word, why = findings(replace(jumping, pit=missing(0.4, since=0)))[0]
    assert word == "overconfident"
    assert "of what was observed lay in the 90 % intervals" in why
    assert "of the standard deviations" in why
    assert "calibrate" in why


def test_bad_predictions_and_a_likelihood_below_training_are_overconfident() -> None:
    stream = replace(healthy(), pit=missing(0.4, since=0))
    ((word, why),) = findings(replace(stream, log_likelihood=stream.log_likelihood - 3))
    assert word == "overconfident"
    assert "in training the mean was 6.0" in why
    unknown = replace(stream, log_likelihood=stream.log_likelihood - 3, trained_log_likelihood=None)
    assert states(unknown) == []
    # Many targets hide a few that are far off: coverage stays high, the likelihood does not.
    mean = stream.mean + np.sin(np.arange(STEPS) / 8)[:, None] * np.array([0.3, 0.4])
    hidden = replace(healthy(), mean=mean, log_likelihood=stream.log_likelihood - 30)
    assert states(hidden) == ["overconfident"]


@pytest.mark.parametrize("seed", range(20))
def test_states_in_which_predictions_are_worse_are_no_change(seed: int) -> None:
    """A swing-up after a stretch of standing: the worst tenth is 4 nats per target worse, and the belief is right."""
    stream = healthy(seed)
    harder = (np.arange(STEPS) >= 120) & (np.arange(STEPS) % 6 == 0)
    assert states(replace(stream, log_likelihood=stream.log_likelihood - 8 * harder)) == []


def test_one_training_environment_is_no_reason_to_fail() -> None:
    alone = replace(healthy(), trained_mean=TRAINED[:1], trained_scale=np.full((1, 2), 0.02))
    assert states(alone) == []
