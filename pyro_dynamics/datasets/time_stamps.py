"""Gaps in a column of times: rows are missing there, and no row leads over them."""

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


def cut_at_gaps(log: Log, grouping: Sequence[np.ndarray]) -> Log:
    """The log with episodes that end where a column of times leaves a gap, and a note if there are any.

    A column is one of times if it increases within every episode, by nearly the same from row to row. Where several do,
    the first one that has gaps is followed.

    Args:
        log: with ``episode`` and without ``step``, which would say the same.
        grouping: columns that environments differ in, each ``[N]``.
    """
    order, same = in_order(log, grouping)
    if same.sum() < FEWEST:
        return log
    for name, column in log.columns.items():
        times = _as_times(column)
        if times is None:
            continue
        steps = np.diff(times[order])
        inside = steps[same]
        median = float(np.median(inside))
        if not (inside.min() > 0 and (abs(inside - median) <= EVEN * median).mean() >= NEARLY_ALL):
            continue
        gaps = same & (steps > GAP * median)
        if not gaps.any():
            continue
        missing = int(np.round(steps[gaps] / median - 1).sum())
        row = int(order[gaps.argmax()])
        note = (
            f"{log.name}: {name} counts by {median:.4g} as a rule, and by more in {int(gaps.sum())} places, first "
            f"after row {row}: about {missing} rows are missing there, and episodes are cut"
        )
        episode = np.empty(len(log), dtype=np.int64)
        episode[order] = np.cumsum(np.append(True, ~same | gaps))
        return replace(log, episode=episode, notes=(*log.notes, note))
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
