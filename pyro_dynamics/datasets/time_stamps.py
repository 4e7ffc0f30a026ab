"""A column of times says in which order rows are, and where some are missing: it is taken for the step."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pyro_dynamics.datasets.episodes_of_rows import in_order
from pyro_dynamics.datasets.log import Log

EVEN, NEARLY_ALL = 0.3, 0.85
"""A column is a clock if so large a share of its steps is a multiple of the usual one, to this share of that."""
GAP = 1.5
"""Rows are missing where a step is so many times the usual one."""
FEWEST = 20
"""Steps by which that is judged."""
TIMES = {"time", "times", "timestamp", "stamp", "t", "date", "datetime", "clock", "header", "sec", "secs", "nsec"}
"""Words out of which the name of a time is made: anything else may count down, such as a timer or the time left."""
PARTS = re.compile(r"(.*?)(nanosec|nsecs|nsec)$")
"""The second part of a time of ROS, whose first part are whole seconds."""
OF_DAY = re.compile(r"\d+:\d\d(:\d\d(\.\d+)?)?")


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
    for name, times in _columns_of_times(log):
        by_time = np.lexsort((times, pieces))
        inside = np.diff(pieces[by_time]) == 0
        apart = np.diff(times[by_time])
        usual = _usual(apart[inside])
        if not usual:
            continue
        moved = not np.array_equal(by_time, order)
        if moved and not set(re.findall(r"[a-z]+", name.lower())) <= TIMES:
            continue
        gaps = bool((inside & (apart > GAP * usual)).any())
        if not (moved or gaps):
            continue
        step = np.empty(len(log), dtype=np.int64)
        counted = np.cumsum(np.append(0, np.where(inside, np.maximum(1, np.round(apart / usual)), 1)))
        starts = np.flatnonzero(np.append(True, ~inside))
        step[by_time] = counted - np.repeat(counted[starts], np.diff(np.append(starts, len(log))))
        what = ("in another order than its rows", "with gaps", "with gaps, and in another order than its rows")
        words = what[2 if moved and gaps else int(gaps)]
        note = f"{log.name}: {name} counts by {usual:.4g} in each episode, {words}: it is taken for the step"
        return replace(log, step=step, notes=(*log.notes, note))
    return log


def _usual(apart: np.ndarray) -> float:
    """The step of a clock from these differences of its values; 0 if they are none of a clock."""
    least = np.quantile(apart, 0.1)
    if apart.min() <= 0:
        return 0.0
    usual = float(np.median(apart[apart <= GAP * least]))
    counted = apart / usual
    even = (abs(counted - np.round(counted)) <= EVEN) & (counted > 1 - EVEN)
    return usual if even.mean() >= NEARLY_ALL else 0.0


def _columns_of_times(log: Log) -> Iterator[tuple[str, np.ndarray]]:
    """Names and values ``[N]`` of the columns that may be times, those of ROS out of their two parts."""
    found = {name: times for name, column in log.columns.items() if (times := _as_times(column)) is not None}
    for name in list(found):
        if part := PARTS.match(name):
            for whole in (f"{part[1]}sec", f"{part[1]}secs"):
                if whole in found and name in found:
                    found[whole] = found[whole] - found[whole].min() + found.pop(name) * 1e-9
    yield from found.items()


def _as_times(column: np.ndarray) -> np.ndarray | None:
    """Numbers; or dates and times of a day as seconds, ``[N]``; None where they are neither."""
    if column.dtype.kind == "U":
        if ":" not in str(column[0]):  # a day, or a name of digits, is no time of a row
            return None
        if OF_DAY.fullmatch(column[0]):
            return _seconds_of_day(column)
        try:
            with warnings.catch_warnings(action="ignore"):  # numpy's, where there is a time zone
                moments = column.astype("datetime64[ns]")
        except ValueError:
            return None
        return None if np.isnat(moments).any() else (moments - moments.min()).astype(np.float64) * 1e-9
    if column.dtype.kind not in "iuf" or not np.isfinite(column).all():
        return None
    return column.astype(np.float64)


def _seconds_of_day(column: np.ndarray) -> np.ndarray | None:
    """Of texts such as 13:05:00.25, ``[N]``; None if one is none."""
    if not all(map(OF_DAY.fullmatch, column)):
        return None
    parts = [[*map(float, text.split(":")), 0.0][:3] for text in column]
    return np.array(parts) @ np.array([3600.0, 60.0, 1.0])
