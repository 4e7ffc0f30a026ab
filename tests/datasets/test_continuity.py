"""Rows of a log that do not fit together are mended where they can be, and named where they cannot."""

from typing import Any

import numpy as np
import pytest

from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays

EPISODES, STEPS = 6, 10


def whole() -> dict[str, Any]:
    """Six episodes of ten steps, of two environments."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(EPISODES, STEPS + 1, 2))
    return {
        "state": states[:, :-1].reshape(-1, 2),
        "action": rng.normal(size=(EPISODES * STEPS, 1)),
        "next_state": states[:, 1:].reshape(-1, 2),
        "reward": rng.normal(size=EPISODES * STEPS),
        "episode": np.repeat(np.arange(EPISODES), STEPS),
        "step": np.tile(np.arange(STEPS), EPISODES),
        "environment": np.repeat(np.arange(EPISODES) % 2, STEPS),
    }


def read(arrays: dict[str, Any]) -> Log:
    return log_of_arrays("a.npz", arrays, None, ColumnNames())


def select(arrays: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: array[rows] for name, array in arrays.items()}


@pytest.mark.parametrize("without", [(), ("step",), ("episode",), ("episode", "step")])
def test_a_log_that_fits_together_stays_as_it_is(without: tuple[str, ...]) -> None:
    arrays = {name: array for name, array in whole().items() if name not in without}
    log = read(arrays)
    assert log.notes == ()
    np.testing.assert_array_equal(log.next_state, arrays["next_state"])


@pytest.mark.parametrize("without", [(), ("step",), ("episode",)])
def test_next_states_that_lead_into_the_next_episode_are_left_out(without: tuple[str, ...]) -> None:
    arrays = whole()
    arrays["next_state"] = np.concatenate([arrays["state"][1:], arrays["next_state"][-1:]])
    log = read({name: array for name, array in arrays.items() if name not in without})
    assert len(log) == EPISODES * STEPS - (EPISODES - 1)
    (note,) = log.notes
    assert "in the last row of 5 of 6 episodes the next state is the first state of the episode below" in note
    lasting = np.arange(EPISODES * STEPS) % STEPS != STEPS - 1
    lasting[-1] = True
    np.testing.assert_array_equal(log.state, whole()["state"][lasting])
    np.testing.assert_array_equal(log.next_state, whole()["next_state"][lasting])


def test_rows_that_are_there_twice_count_once() -> None:
    log = read(select(whole(), np.r_[0:60, 13, 47]))
    assert len(log) == 60
    assert log.notes == ("a.npz: 2 of 62 rows are there twice, and are left out once",)


def test_two_rows_of_one_step_that_differ_are_counted() -> None:
    arrays = select(whole(), np.r_[0:60, 13])
    arrays["action"][60] += 1
    log = read(arrays)
    assert len(log) == 61
    assert any("1 rows are the same step of the same episode as another row, and differ" in note for note in log.notes)


def test_missing_steps_are_counted() -> None:
    log = read(select(whole(), np.r_[0:5, 7:20, 24:60]))
    assert log.notes == ("a.npz: 2 steps are missing within episodes, which are cut there",)


def test_rows_that_are_shuffled_without_their_steps_are_named() -> None:
    arrays = select(whole(), np.random.default_rng(1).permutation(60))
    assert read(arrays).notes == ()  # by their steps they can be sorted
    del arrays["step"]
    (note,) = read(arrays).notes
    assert "places within an episode the next state is not the state of the following row" in note


def test_next_states_of_another_episode_are_named() -> None:
    arrays = whole()
    arrays["next_state"] = np.roll(arrays["next_state"], STEPS, axis=0)
    (note,) = read(arrays).notes
    assert (
        "in 54 of 54 places within an episode the next state is not the state of the following row, first in row 0"
        in note
    )


def smooth(steps: int = 40) -> dict[str, Any]:
    """Six episodes of a slow swing, without next states and steps."""
    time = np.arange(steps) * 0.1 + np.arange(EPISODES)[:, None]
    state = np.stack([np.sin(time), np.cos(time)], axis=2).reshape(-1, 2)
    episode = np.repeat(np.arange(EPISODES), steps)
    return {"state": state, "action": np.cos(state[:, :1]), "episode": episode, "environment": episode % 2}


NOT_IN_ORDER = "as far apart as those of any two rows of an episode"


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_not_in_the_order_of_time_are_named(seed: int) -> None:
    arrays = smooth()
    assert not any(NOT_IN_ORDER in note for note in read(arrays).notes)
    order = np.random.default_rng(seed).permutation(len(arrays["state"]))
    shuffled = select(arrays, order)
    assert any(NOT_IN_ORDER in note for note in read(shuffled).notes)
    counted = {**shuffled, "step": order % 40}
    assert not any(NOT_IN_ORDER in note for note in read(counted).notes)


def changing(how: str) -> dict[str, Any]:
    """Episodes in which the environment changes after step 5, and changes back in every second one after step 7."""
    arrays = whole()
    step, episode = arrays["step"], arrays["episode"]
    arrays["environment"] = ((step > 5) & ~((step > 7) & (episode % 2 == 1))).astype(int)
    if how == "ends":
        arrays["dones"] = step == STEPS - 1
        del arrays["step"], arrays["episode"]
    elif how == "steps":
        del arrays["episode"]
    elif how == "in no order":
        arrays = select(arrays, np.random.default_rng(0).permutation(EPISODES * STEPS))
    return arrays


@pytest.mark.parametrize("how", ["episodes and steps", "steps", "ends", "in no order"])
def test_a_group_that_changes_within_an_episode_is_named(how: str) -> None:
    arrays = changing(how)
    log = read(arrays)
    assert len(log) == EPISODES * STEPS  # each has its next state, and nothing is lost
    (note,) = log.notes
    assert "the column to group by changes within an episode in 9 places" in note
    del arrays["next_state"]
    log = read(arrays)
    assert "the column to group by changes within an episode in 9 places" in log.notes[0]
    assert len(log) == EPISODES * STEPS - EPISODES - 9
    assert "15 of 60 rows" in log.notes[1]
    assert not log.notes[2:]  # the steps between are those of another environment, and not missing
    right = {tuple(state): tuple(after) for state, after in zip(whole()["state"], whole()["next_state"], strict=True)}
    assert all(right[tuple(s)] == tuple(n) for s, n in zip(log.state, log.next_state, strict=True))


@pytest.mark.parametrize("shuffled", [False, True])
def test_environments_that_count_their_own_episodes_do_not_change(shuffled: bool) -> None:
    arrays = whole()
    arrays["environment"], arrays["episode"] = arrays["episode"], np.zeros(EPISODES * STEPS, int)
    if shuffled:
        arrays = select(arrays, np.random.default_rng(0).permutation(EPISODES * STEPS))
    assert read(arrays).notes == ()


RETURNS = "the number of an episode returns after rows of others"


@pytest.mark.parametrize(("sessions", "first"), [((2, 2, 2), 80), ((4, 2), 160), ((3, 3), 120)])
@pytest.mark.parametrize("named", [False, True])
def test_sessions_that_each_count_from_0_have_episodes_of_their_own(
    sessions: tuple[int, ...], first: int, named: bool
) -> None:
    arrays = smooth()
    del arrays["environment"]
    right = read(arrays)
    counted = np.concatenate([np.arange(count) for count in sessions]).repeat(40)
    log = read({**arrays, "episode": np.array([f"run {number}" for number in counted]) if named else counted})
    np.testing.assert_array_equal(log.next_state, right.next_state)
    assert f"{RETURNS} in {EPISODES - max(sessions)} places, first in row {first}" in log.notes[0]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_episodes_whose_rows_alternate_stay_one(rows: int) -> None:
    """As vector environments give them, so many rows at once."""
    arrays = smooth(steps=42)
    order = np.arange(EPISODES * 42).reshape(EPISODES, -1, rows).swapaxes(0, 1).ravel()
    right, log = read(arrays), read(select(arrays, order))
    assert not any(RETURNS in note for note in log.notes)
    assert set(zip(*_moves(log), strict=True)) == set(zip(*_moves(right), strict=True))


def _moves(log: Log) -> list[list[tuple[float, ...]]]:
    return [list(map(tuple, part.tolist())) for part in (log.state, log.next_state)]


@pytest.mark.parametrize("measured", [False, True])
def test_next_states_that_lead_on_say_whether_an_episode_that_returns_is_the_same(measured: bool) -> None:
    """In pieces of five rows; other sensors say nothing about it."""
    arrays = {name: array for name, array in whole().items() if name not in ("step", "environment")}
    order = np.arange(EPISODES * STEPS).reshape(EPISODES, 2, 5).swapaxes(0, 1).ravel()
    arrays["next_state"] = arrays["next_state"] + 1e-3 * measured
    log = read(select(arrays, order))
    assert log.episode is not None
    assert len(np.unique(log.episode)) == (2 if measured else 1) * EPISODES
    assert any(f"{RETURNS} in 6 places" in note for note in log.notes) is measured
