"""Where a column of times leaves a gap no row leads over it; other columns cut nothing."""

from typing import Any

import numpy as np
import pytest

from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays

STEPS, EPISODES = 60, 2
STEP = 0.05
DROPPED = [10, 11, 12, 75]
"""Rows that are missing; the first three stand together."""


def log(times: Any, dropped: list[int], **more: Any) -> Log:
    """A log whose state counts its steps: a row that leads over a gap changes by more than one."""
    step = np.tile(np.arange(STEPS), EPISODES)
    rows = {
        "state": np.stack([step, np.sin(step)], axis=1),
        "action": np.cos(step)[:, None],
        "episode": np.repeat(np.arange(EPISODES), STEPS),
        "time": times,
        **more,
    }
    kept = np.delete(np.arange(len(step)), dropped)
    return log_of_arrays("log", {name: np.asarray(column)[kept] for name, column in rows.items()}, None, ColumnNames())


def seconds(jitter: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.arange(STEPS * EPISODES) * STEP + rng.uniform(-jitter, jitter, STEPS * EPISODES) * STEP


@pytest.mark.parametrize(
    "times",
    [
        seconds(),
        seconds(0.1),
        1.7e9 + seconds(),
        np.arange(STEPS * EPISODES) * 50_000_000,  # nanoseconds
        np.datetime64("2026-11-30T10:00:00") + (seconds() * 1e9).astype("timedelta64[ns]"),
        [f"2026-11-30 10:00:{second:09.6f}" for second in seconds()],
        np.tile(seconds()[:STEPS], EPISODES),  # from 0 in each episode
        (seconds() * 1e3).astype("timedelta64[ms]"),
        [f"10:00:{second:06.3f}" for second in seconds()],
    ],
)
def test_no_row_leads_over_a_gap(times: Any) -> None:
    found = log(times, DROPPED)
    assert ((found.next_state - found.state)[:, 0] == 1).all()
    assert len(found) == STEPS * EPISODES - len(DROPPED) - EPISODES - 2
    assert found.notes[0].startswith("log: time counts by ")
    assert "with gaps: it is taken for the step" in found.notes[0]
    assert "log: 4 steps are missing within episodes, which are cut there" in found.notes


@pytest.mark.parametrize(
    "times", [seconds(), seconds(0.1), seconds(2.0), np.cumsum(np.random.default_rng(1).random(120))]
)
def test_without_gaps_nothing_is_cut(times: Any) -> None:
    found = log(times, [])
    assert len(found) == (STEPS - 1) * EPISODES
    assert not any("counts by" in note for note in found.notes)


def test_columns_that_are_no_times_cut_nothing() -> None:
    rng = np.random.default_rng(2)
    others = {
        "battery": 12 - 0.01 * np.arange(120),
        "lap": np.repeat(np.arange(12), 10),
        "noise": rng.normal(size=120),
        "robot": np.full(120, "7"),
        "travelled": np.cumsum(rng.exponential(size=120)),
    }
    found = log(np.zeros(120), DROPPED, **others)
    assert len(found) == STEPS * EPISODES - len(DROPPED) - EPISODES
    assert not any("counts by" in note for note in found.notes)


def shuffled(name: str, times: np.ndarray) -> Log:
    rows = np.random.default_rng(3).permutation(len(times))
    step = np.tile(np.arange(STEPS), EPISODES)
    columns = {
        "state": np.stack([step, np.sin(step)], axis=1),
        "action": np.cos(step)[:, None],
        "episode": np.repeat(np.arange(EPISODES), STEPS),
        name: times,
    }
    return log_of_arrays("log", {key: column[rows] for key, column in columns.items()}, None, ColumnNames())


@pytest.mark.parametrize("name", ["time", "timestamp", "header.stamp", "t", "Date"])
def test_rows_are_put_in_the_order_of_time(name: str) -> None:
    found = shuffled(name, seconds())
    assert ((found.next_state - found.state)[:, 0] == 1).all()
    assert len(found) == (STEPS - 1) * EPISODES
    assert "in another order than its rows: it is taken for the step" in found.notes[0]


def test_a_log_from_the_newest_row_to_the_oldest_is_turned() -> None:
    times = seconds()
    found = log(times, [])
    turned = log_of_arrays(
        "log",
        {
            "state": np.stack([np.arange(STEPS)[::-1], np.ones(STEPS)], axis=1),
            "action": np.zeros((STEPS, 1)),
            "episode": np.zeros(STEPS),
            "time": times[:STEPS][::-1],
        },
        None,
        ColumnNames(),
    )
    assert ((turned.next_state - turned.state)[:, 0] == 1).all()
    assert not any("taken for the step" in note for note in found.notes)


def test_a_time_of_ros_has_two_parts() -> None:
    times = 1_700_000_000 + seconds()
    second = np.floor(times).astype(np.int64)
    found = log(
        np.zeros(len(times)), DROPPED, **{"stamp.sec": second, "stamp.nanosec": ((times - second) * 1e9).round()}
    )
    assert ((found.next_state - found.state)[:, 0] == 1).all()


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_gaps_are_found_where_many_rows_are_missing(share: float, jitter: float) -> None:
    dropped = np.flatnonzero(np.random.default_rng(1).random(STEPS * EPISODES) < share).tolist()
    found = log(seconds(jitter), dropped)
    assert ((found.next_state - found.state)[:, 0] == 1).all()


@pytest.mark.parametrize(
    "name", ["time_left", "remaining_time", "countdown", "sample", "timer", "battery_runtime_s", "updates_to_do"]
)
def test_what_counts_down_turns_nothing(name: str) -> None:
    found = log(np.zeros(STEPS * EPISODES), [], **{name: -seconds()})
    assert ((found.next_state - found.state)[:, 0] == 1).all()
    assert not any("taken for the step" in note for note in found.notes)
    assert not any("taken for the step" in note for note in shuffled(name, -seconds()).notes)
