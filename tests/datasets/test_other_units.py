"""Data in other units than the rest are named; larger motions are not."""

import math

import numpy as np
import pytest

from pyro_dynamics.datasets.other_units import other_units


@pytest.mark.parametrize(("turn", "factor"), [(math.pi, 180 / math.pi), (1.5, 180 / math.pi), (2 * math.pi, 57.3)])
def test_degrees_beside_radians_are_named(turn: float, factor: float) -> None:
    angles = np.random.default_rng(0).uniform(-1, 1, (2, 300, 2)) * [turn, 1.0]
    assert other_units({"a": angles[0], "b": angles[1]}, ("angle", "speed")) == ""
    words = other_units({"a": angles[0], "b": angles[1] * [factor, 1.0]}, ("angle", "speed"))
    assert words.startswith("angle goes to")
    assert "radians and degrees are mixed" in words


def test_a_larger_swing_is_no_other_unit() -> None:
    swings = np.random.default_rng(0).uniform(-1, 1, (2, 300, 1))
    assert other_units({"a": swings[0], "b": 3 * swings[1]}) == ""
    assert other_units({"a": swings[0], "b": 30 * swings[1], "c": 900 * swings[1]}) == ""


@pytest.mark.parametrize("factor", [200.0, 1000.0, 1e-3, 1e6])
def test_metres_beside_millimetres_are_named(factor: float) -> None:
    places = np.random.default_rng(0).uniform(-1, 1, (3, 300, 2)) * [1.0, 5.0]
    blocks = {"a": places[0], "b": places[1] * [2.0, 3.0], "c": places[2] * [factor * 1.5, 1.0]}
    words = other_units(blocks, ("place", "speed"))
    assert words.startswith("place spreads by ")
    assert "speed" not in words
    assert "such as mm beside m" in words
    assert other_units({**blocks, "c": places[2] * [0.0, 1.0]}) == ""  # it stands still there
