"""A column of times says in which order rows are, and where some are missing: it is taken for the step."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyro_dynamics.datasets.episodes_of_rows import in_order
from pyro_dynamics.datasets.log import Log

EVEN, NEARLY_ALL = 0.25, 0.9
"""A column is a clock if so large a share of its steps is within this share of their median."""
GAP = 1.75
"""Rows are missing where a step is so many times the median."""
FEWEST = 20
"""Steps by which that is judged."""
NAMED = re.compile(r"(time|stamp|date|clock|\bt\b|_t\b|seconds|sec\b|nanos|millis)", re.IGNORECASE)
"""What a column of times is called as a rule: another one may well count down."""
BACKWARDS = re.compile(r"(left|remaining|until|to_go|before)", re.IGNORECASE)


def steps_of_times(log: Log, grouping: Sequence[np.ndarray]) -> Log:
    """The log with steps by a column of times, where its rows are in another order or some are missing; and a note.

    A column is one of times if its values in an episode, in their order, are nearly evenly apart. The first one that
    says something is followed: gaps in any of them, and another order where the name says that it is a time.

    Args:
        log: with ``episode`` and without ``step``, which would say the same.
        grouping: columns that environments differ in, each ``[N]``.
    """
    order, same = in_order(log, grouping)
    if same.sum() < FEWEST:
        return log
    pieces = np.empty(len(log), dtype=np.int64)
    pieces[order] = np.cumsum(np.append(False, ~same))
    for name, column in log.columns.items():
        times = _as_times(column)
        if times is None:
            continue
        by_time = np.lexsort((times, pieces))
        inside = np.diff(pieces[by_time]) == 0
        apart = np.diff(times[by_time])
        median = float(np.median(apart[inside]))
        even = abs(apart[inside] - median) <= EVEN * median
        if not (apart[inside].min() > 0 and even.mean() >= NEARLY_ALL):
            continue
        moved = not np.array_equal(by_time, order)
        if moved and not (NAMED.search(name) and not BACKWARDS.search(name)):
            continue
        gaps = bool((inside & (apart > GAP * median)).any())
        if not (moved or gaps):
            continue
        step = np.empty(len(log), dtype=np.int64)
        counted = np.cumsum(np.append(0, np.where(inside, np.maximum(1, np.round(apart / median)), 1)))
        starts = np.flatnonzero(np.append(True, ~inside))
        step[by_time] = counted - np.repeat(counted[starts], np.diff(np.append(starts, len(log))))
        what = ("in another order than its rows", "with gaps", "with gaps, and in another order than its rows")
        words = what[2 if moved and gaps else int(gaps)]
        note = f"{log.name}: {name} counts by {median:.4g} in each episode, {words}: it is taken for the step"
        return replace(log, step=step, notes=(*log.notes, note))
    return log


def _as_times(column: np.ndarray) -> np.ndarray | None:
    """Numbers, or dates as seconds, ``[N]``; None where they are neither."""
    if column.dtype.kind == "U":
        if ":" not in str(column[0]):  # a day, or a name of digits, is no time of a row
            return None
        try:
            with warnings.catch_warnings(action="ignore"):  # numpy's, where there is a time zone
                moments = column.astype("datetime64[ns]")
        except ValueError:
            return None
        return None if np.isnat(moments).any() else (moments - moments.min()).astype(np.float64) * 1e-9
    if column.dtype.kind not in "iuf" or not np.isfinite(column).all():
        return None
    return column.astype(np.float64)
