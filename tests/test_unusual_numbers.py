import math
from typing import Any

import numpy as np
import pytest

from pyro_dynamics.likely_angles import likely_angles
from pyro_dynamics.unusual_numbers import (
    coarse_actions,
    far_actions,
    far_outside,
    lost_digits,
    outliers,
    repeated,
    revealing,
    shared,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def walk(rng: np.random.Generator, scale: float, steps: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """States and next states of two entries, the first a random walk, the second noise."""
    path = np.stack([scale * rng.normal(size=steps + 1).cumsum(), rng.normal(size=steps + 1)], 1)
    return path[:-1].copy(), path[1:].copy()


@pytest.mark.parametrize(
    ("low", "high", "jump", "words"),
    [
        (0.0, 0.0, 3.0, "state 0 stood still at 0 in all that was trained on, and is 3 now"),
        (9.81, 9.81, 9.9, "stood still at 9.81"),
        (-1e-6, 1e-6, 0.2, "lay between -1e-06 and 1e-06 in all that was trained on, and is 0.2 now"),
        (-1.0, 1.0, -30.0, "lay between -1 and 1 in all that was trained on, and is -30 now"),
    ],
)
def test_states_far_outside_are_named(low: float, high: float, jump: float, words: str) -> None:
    state = np.tile([(low + high) / 2, 0.5], (20, 1))
    state[7, 0] = jump
    far, said = far_outside(np.array([low, 0.0]), np.array([high, 1.0]), state)
    assert np.flatnonzero(far).tolist() == [7]
    assert words in said


@pytest.mark.parametrize(
    ("low", "high", "sent", "words"),
    [
        (-1.0, 1.0, 57.3, "action 0 is 57.3, and its bounds are -1 and 1"),
        (0.0, 5.0, -2.0, "action 0 is -2, and its bounds are 0 and 5"),
        (-1e-3, 1e-3, 2e-3, "action 0 is 0.002"),
        (-1.0, 1.0, 1.4, ""),
    ],
)
def test_actions_far_outside_of_their_bounds_are_named(low: float, high: float, sent: float, words: str) -> None:
    action = np.tile([(low + high) / 2, 0.5], (20, 1))
    action[7, 0] = sent
    far, said = far_actions(np.array([low, 0.0]), np.array([high, 1.0]), action)
    assert np.flatnonzero(far).tolist() == ([7] if words else [])
    assert said.startswith(words)
    assert bool(said) == bool(words)


@pytest.mark.parametrize(("low", "high", "value"), [(-1.0, 1.0, 9.0), (0.0, 0.0, 1.0), (9.81, 9.81, 9.81)])
def test_states_that_go_on_as_before_are_not(low: float, high: float, value: float) -> None:
    """A few widths outside, a flag that is set for the first time, a constant."""
    far, said = far_outside(np.array([low]), np.array([high]), np.array([[low], [value]]))
    assert not far.any()
    assert said == ""


@pytest.mark.parametrize(("offset", "scale", "lost"), [(4.5e6, 0.01, True), (1e5, 0.1, True), (1e3, 0.1, False)])
def test_digits_that_float32_loses(offset: float, scale: float, lost: bool, rng: np.random.Generator) -> None:
    state, next_state = (part + np.array([offset, 0.0]) for part in walk(rng, scale))
    said = lost_digits(state, next_state, ["east (m)", "wind"])
    assert ("east (m)" in said) is lost
    assert "wind" not in said
    rounded = [part.astype(np.float32).astype(np.float64) for part in (state, next_state)]
    assert ("state 0" in lost_digits(*rounded)) is lost  # seen from what float32 leaves too


@pytest.mark.parametrize(
    ("start", "step", "lost"),
    [
        (1.7e9, 0.02, True),  # a time stamp
        (2.5e8, 1.0, True),  # a counter, which float32 holds to 16.7 million
        (-6e8, -7.0, True),
        (86400.0, 1e-3, True),
        (1e7, 1.0, False),
        (2.0**26, 8.0, False),  # float32 holds these
        (0.0, 0.02, False),
        (1.7e9, 0.0, False),
    ],
)
def test_a_step_that_is_always_the_same_is_lost_where_float32_changes_it(start: float, step: float, lost: bool) -> None:
    path = np.stack([start + step * np.arange(1001), np.sin(np.arange(1001))], 1)
    said = lost_digits(path[:-1], path[1:], ["time", "x"])
    assert (f"time (about {abs(path[:-1, 0]).max():.3g}, whose changes of {abs(step):.2g} float32" in said) is lost
    assert bool(said) is lost


@pytest.mark.parametrize(
    ("offset", "spread", "lost"),
    [
        (4.5e6, 1.0, True),
        (1e8, 1.0, True),
        (-2e7, 3.0, True),
        (0.0, 1e-9, False),
        (100.0, 1.0, False),
        (5e9, 0.0, False),
    ],
)
def test_actions_far_from_0_lose_their_digits(
    offset: float, spread: float, lost: bool, rng: np.random.Generator
) -> None:
    action = offset + spread * rng.normal(size=(500, 1))
    said = coarse_actions(np.concatenate([rng.normal(size=(500, 1)), action], 1))
    assert bool(said) is lost
    assert ("action 1 (about" in said) is lost


@pytest.mark.parametrize(
    ("turn", "low"), [(2 * math.pi, -math.pi), (2 * math.pi, 0.0), (360.0, -180.0), (360.0, 0.0), (1.0, 0.0)]
)
def test_an_angle_that_jumps_is_found(turn: float, low: float, rng: np.random.Generator) -> None:
    state, next_state = walk(rng, 0.03 * turn)
    for part in (state, next_state):
        part[:, 0] = low + (part[:, 0] - low) % turn
    said = likely_angles(state, next_state, [turn, math.inf])
    assert "state 0" in said
    assert ("angles=(0,)" if turn == 2 * math.pi else f"angles={{0: {turn:g}}}") in said
    assert "--angles 0," in said
    assert likely_angles(state, next_state, [turn, math.inf], known=(0,)) == ""
    assert likely_angles(state, next_state, [turn, math.inf], known={0: turn}) == ""
    assert likely_angles(state, next_state, [turn, math.inf], known={0: 0.5 * turn}) == said


@pytest.mark.parametrize(("turn", "low", "whole"), [(4096.0, 0.0, True), (1.0, -0.5, False), (400.0, 0.0, False)])
def test_an_angle_in_any_unit_is_found(turn: float, low: float, whole: bool, rng: np.random.Generator) -> None:
    """Counts of an encoder, turns and gradians, without bounds."""
    path = np.cumsum(rng.normal(0.01 * turn, 0.03 * turn, 2000))
    path = low + (np.floor(path) if whole else path) % turn
    path = np.stack([path, rng.normal(size=2000)], 1)
    said = likely_angles(path[:-1], path[1:])
    assert "state 0 (by about" in said
    assert float(said.partition("by about ")[2].partition(")")[0]) == pytest.approx(turn, rel=0.05)
    assert likely_angles(path[:-1], path[1:], known=(0,)) == ""


def test_switches_and_glitches_are_no_angles(rng: np.random.Generator) -> None:
    steps = 2000
    glitch = np.sin(0.01 * np.arange(steps))
    glitch[[300, 800, 1500]] = 50.0
    levels = np.where(np.arange(steps) // 200 % 2, 5.0, -5.0) + 0.01 * rng.normal(size=steps)
    swing = 3 * np.sin(0.02 * np.arange(steps)) + 0.05 * rng.normal(size=steps)
    path = np.stack([glitch, levels, swing], 1)
    assert likely_angles(path[:-1], path[1:]) == ""


def test_other_numbers_are_no_angles(rng: np.random.Generator) -> None:
    """Noise of any width, a flag, a walk that does not wrap, and a position that is reset to the other end slowly."""
    steps = 1000
    columns = [rng.normal(size=steps), 3 * rng.normal(size=steps), 200 * rng.normal(size=steps)]
    columns += [rng.integers(0, 2, steps).astype(float), 0.1 * rng.normal(size=steps).cumsum()]
    columns += [rng.uniform(-math.pi, math.pi, steps)]  # drawn anew at each step: no small turns
    path = np.stack(columns, 1)
    widths = [math.inf, math.inf, 360.0, 1.0, math.inf, 2 * math.pi]
    assert likely_angles(path[:-1], path[1:], widths) == ""


@pytest.mark.parametrize("entry", [0, 1])
@pytest.mark.parametrize("size", [1e6, -1e9])
def test_rows_that_decide_the_scale_are_named(size: float, entry: int, rng: np.random.Generator) -> None:
    state, next_state = walk(rng, 0.01)
    assert outliers(state, next_state, "row {}".format) == ""
    next_state[400, entry] = size
    said = outliers(state, next_state, "row {}".format)
    assert f"the change of state {entry} (in 1 of 1000 rows" in said
    assert "in row 400" in said


def test_many_entries_are_counted() -> None:
    said = far_outside(np.zeros(9), np.zeros(9), np.full((4, 9), 2.0))[1]
    assert said.count("stood still") == 3
    assert said.endswith(", and 6 more")


def walks(rng: np.random.Generator) -> list[np.ndarray]:
    """State, action, next state and environment of two walks of 100 steps."""
    parts = [walk(rng, 0.1, 100) for _ in range(2)]
    state, next_state = (np.concatenate(part) for part in zip(*parts, strict=True))
    return [state, rng.normal(size=(200, 1)), next_state, np.repeat([0, 1], 100)]


@pytest.mark.parametrize(
    "rows",
    [
        np.r_[0:200, 0:200],  # a file and its copy
        np.repeat(np.arange(200), 2),  # each row twice, one below the other
        np.r_[0:200, 40:60],  # a piece of it
    ],
)
def test_rows_that_are_there_twice_are_named(rng: np.random.Generator, rows: np.ndarray) -> None:
    given = walks(rng)
    assert repeated(*given) == ""
    assert f"{len(rows) - 200} of {len(rows)} rows have the state and action" in repeated(*(one[rows] for one in given))


def test_rows_at_rest_and_on_a_grid_may_repeat(rng: np.random.Generator) -> None:
    state, action, next_state, environment = walks(rng)
    still = np.full_like(state, 0.5)
    assert repeated(still, np.zeros_like(action), still, environment) == ""
    assert repeated(np.round(10 * state), action > 0, np.round(10 * next_state), environment) == ""


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ((np.r_[0:80], np.r_[80:200]), ""),
        ((np.r_[0:80], np.r_[0:80], np.r_[80:200]), "80 of the 80 rows of a are in b, to the last digit"),
        (
            (np.r_[0:80], np.r_[80:160], np.r_[0:200]),
            "of a are in c, 80 of the 80 rows of b are in c",
        ),
        ((np.r_[0:200], np.r_[190:200, 0:5]), "15 of the 15 rows of b are in a"),
        ((np.r_[0:80], np.r_[70:150]), ""),  # a piece
        ((np.r_[0:200], np.r_[0:9]), ""),  # by chance
        ((np.r_[0:200], np.r_[0:200], np.r_[0:200], np.r_[0:200], np.r_[0:200]), "200 of the 200 rows of a are in b"),
    ],
)
def test_files_that_hold_the_rows_of_another_are_named(
    rng: np.random.Generator, blocks: tuple[np.ndarray, ...], words: str
) -> None:
    state, action, next_state = (part.astype(np.float32)[np.concatenate(blocks)] for part in walks(rng)[:3])
    ends = np.cumsum([len(rows) for rows in blocks])
    named = {name: np.arange(end - len(rows), end) for name, end, rows in zip("abcde", ends, blocks, strict=False)}
    said = shared(state, action, next_state, named)
    assert words in said
    assert bool(said) == bool(words)
    assert said.count(" rows of ") <= 3
    other = next_state + np.arange(len(state), dtype=np.float32)[:, None]  # of other environments
    assert shared(state, action, other, named) == ""
    assert shared(np.round(10 * state), action, np.round(10 * next_state), named) == ""
    assert shared(state, action, state, named) == ""


@pytest.mark.parametrize(
    ("hidden", "revealed", "words"),
    [
        (((0.5,), (1.0,), (4.0,)), lambda h: h[:, 0], "state 2 is friction itself in every row"),
        (((0.5,), (1.0,), (4.0,)), lambda h: 273.15 - 57.3 * h[:, 0], "state 2 is friction itself"),
        (((0.5,), (1.0,)), lambda h: h[:, 0], "state 2 is friction itself"),
        (((1.0, 3.0), (1.0, 5.0), (2.0, 4.0)), lambda h: h[:, 1], "state 2 is mass itself"),
        (((0.5,), (1.0,)), lambda h: 3 * h[:, 0] + 1, ""),  # any two numbers lie on a line
        (((0.5,), (1.0,), (4.0,)), lambda h: np.sqrt(h[:, 0]), ""),
        (((0.5,), (1.0,), (4.0,)), lambda h: np.full(len(h), 9.81), ""),
        (((0.5,), (1.0,), (4.0,)), lambda h: h[:, 0] + 1e-3 * np.arange(len(h)), ""),
        (((0.5,), (0.5,), (0.5,)), lambda h: h[:, 0], ""),
    ],
)
def test_a_hidden_parameter_among_the_states_is_named(
    hidden: tuple[tuple[float, ...], ...], revealed: Any, words: str, rng: np.random.Generator
) -> None:
    values = np.array(hidden)[np.arange(300) % len(hidden)]
    state = np.column_stack([rng.normal(size=(300, 2)), revealed(values)]).astype(np.float32).astype(np.float64)
    found = revealing(state, values, ("friction", "mass")[: values.shape[1]])
    assert (words in found) if words else not found
