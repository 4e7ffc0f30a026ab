"""Schedules from formulas: a ramp, a sine, a random walk."""

import math
from collections.abc import Sequence

import numpy as np

from pyro_dynamics.environments.contexts import Context, as_context, numbers
from pyro_dynamics.environments.schedule import Schedule
from pyro_dynamics.errors import UserError

DIGITS = 6
"""Contexts are rounded to this many digits, for readability."""


def ramp(points: Sequence[tuple[int, Context]]) -> Schedule:
    """Piecewise linear between points; the last context stays.

    Args:
        points: (step, context) pairs in order, from step 0 on.
    """
    steps = [step for step, _ in Schedule(tuple(points)).changes]
    corners = np.array([numbers(context) for _, context in points])
    times = np.arange(steps[-1] + 1)
    return _of_columns([np.interp(times, steps, column) for column in corners.T])


def sine(low: Context, high: Context, period: float, steps: int) -> Schedule:
    """Between two contexts, from midway upwards, for so many steps; the period is in steps too."""
    if not (period > 0 and math.isfinite(period)):
        raise UserError(f"the period of a sine must be a positive number of steps, not {period}")
    share = 0.5 + 0.5 * np.sin(2 * np.pi * np.arange(steps) / period)
    pairs = zip(numbers(low), numbers(high), strict=True)
    return _of_columns([bottom + share * (top - bottom) for bottom, top in pairs], steps)


def random_walk(start: Context, sd: Context, low: Context, high: Context, steps: int, seed: int = 0) -> Schedule:
    """Normal steps of standard deviation ``sd`` from ``start`` on, reflected at the bounds; the same for a seed."""
    ends = list(zip(*map(numbers, (start, sd, low, high)), strict=True))
    if any(not (bottom < top and bottom <= begin <= top and width > 0) for begin, width, bottom, top in ends):
        raise UserError("a random walk needs a start between low and high, and a standard deviation above 0")
    rng = np.random.default_rng(seed)
    columns = []
    for begin, width, bottom, top in ends:
        path = begin + np.concatenate([[0.0], np.cumsum(rng.normal(0.0, width, steps - 1))])
        folded = np.mod(path - bottom, 2 * (top - bottom))
        columns.append(bottom + np.minimum(folded, 2 * (top - bottom) - folded))
    return _of_columns(columns, steps)


def _of_columns(columns: Sequence[np.ndarray], length: int | None = None) -> Schedule:
    rows = np.stack(columns, 1).round(DIGITS).tolist()
    return Schedule.of_steps([as_context(row) for row in rows], length)
