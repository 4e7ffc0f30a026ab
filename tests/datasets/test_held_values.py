"""Sensors that are slower than the log are named; what rests, is rounded or was thinned is not."""

import numpy as np
import pytest

from pyro_dynamics.datasets.held_values import held_values

STEPS, EPISODES = 200, 3
RNG = np.random.default_rng(0)


def held(path: np.ndarray, every: int) -> np.ndarray:
    """The values of every so-many-th row, until the next one."""
    return path[np.arange(len(path)) // every * every]


def said(*entries: np.ndarray) -> str:
    """Of episodes that all have these entries, in turn with another one's rows."""
    path = np.stack(entries, 1)
    state, next_state = (np.repeat(part, EPISODES, axis=0) for part in (path[:-1], path[1:]))
    return held_values(state, next_state, np.tile(np.arange(EPISODES), len(path) - 1))


@pytest.mark.parametrize("every", [2, 3, 10])
def test_a_slow_sensor_is_named(every: int) -> None:
    place, speed = RNG.normal(size=(2, STEPS)).cumsum(1)
    words = said(speed, held(place, every))
    assert f"state 1 in one row of {every}:" in words
    assert "state 0" not in words
    assert f"state 0, state 1 in one row of {every}:" in said(held(speed, every), held(place, every))


def test_a_sensor_that_misses_a_row_now_and_then_is_named() -> None:
    place = held(RNG.normal(size=STEPS), 2)
    place[100:] = np.roll(place[100:], 1)
    assert "state 0 in one row of 2" in said(place)


def test_other_entries_are_left_alone() -> None:
    steps = np.arange(STEPS)
    walk = RNG.normal(size=STEPS).cumsum()
    resting = np.where(steps % 50 < 25, walk, 0.0)
    assert said(walk, resting, np.round(walk), np.zeros(STEPS), (steps % 97 == 0).astype(float)) == ""
    assert said(np.round(np.sin(0.1 * steps), 1), RNG.integers(0, 2, STEPS).astype(float)) == ""
