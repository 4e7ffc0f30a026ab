"""Whether the rows of a log fit together: each next state should be the state of the next row of its episode."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyro_dynamics.datasets.automatic_resets import unexplained
from pyro_dynamics.datasets.log import Log

CLEAR = 0.25
"""A linear model says what follows where it leaves less than this share of the squared changes."""
ALIKE = 4.0
"""And rows go by it where it leaves no more than so many times what it leaves elsewhere."""


def fitted_together(log: Log, grouping: Sequence[np.ndarray], changes: np.ndarray) -> Log:
    """The log without rows that are there twice and without those that lead from one episode into the next.

    Where the next states are the state column moved up by one row, the last row of each episode leads into another
    episode. What cannot be mended is said in a note: next states that are not the state of the next step, steps that
    are missing, and different rows that are one step of one episode.

    Args:
        log: with next states of its own, and with ``episode``, ``step`` or both.
        grouping: columns that environments differ in, each ``[N]``.
        changes: after which rows these change within an episode, ``[N]``.
    """
    log, keys = _without_repeated(log, list(grouping))
    log, keys = _without_leading_on(log, keys, changes if len(changes) == len(log) else np.zeros(len(log), dtype=bool))
    keys = [] if changes.any() else keys  # an episode continues in another environment
    order = _order(log, keys)
    same, counted = _neighbours(log, keys, order)
    inside = same & (counted == 1)
    apart = inside & ~_leads_to(log, order[:-1], order[1:])
    notes = []
    if apart.any():
        row = int(order[apart.argmax()])
        whole = log.step is not None and log.episode is not None
        advice = "sort the rows, or name the columns episode and step"
        notes.append(
            f"{log.name}: in {int(apart.sum())} of {int(inside.sum())} places within an episode the next state is not "
            f"the state of the following row, first in row {row}: "
            + ("they are taken as they are, and predicted one step ahead alone" if whole else advice)
        )
    missing = int((counted[same] - 1).clip(0).sum()) if log.step is not None else 0
    if missing:
        notes.append(f"{log.name}: {missing} steps are missing within episodes, which are cut there")
    if repeated := int((same & (counted == 0)).sum()):
        notes.append(
            f"{log.name}: {repeated} rows are the same step of the same episode as another row, and differ from it: "
            "name the column that distinguishes environments by --group, or count episodes through"
        )
    return replace(log, notes=(*log.notes, *notes))


def _without_repeated(log: Log, grouping: list[np.ndarray]) -> tuple[Log, list[np.ndarray]]:
    """One of each pair of rows that are the same step of one episode and alike in everything."""
    if log.step is None or log.episode is None:
        return log, grouping
    order = _order(log, grouping)
    same, counted = _neighbours(log, grouping, order)
    parts = [log.state, log.action, log.next_state, *([] if log.reward is None else [log.reward[:, None]])]
    whole = np.concatenate(parts, axis=1)[order]
    again = same & (counted == 0) & (whole[:-1] == whole[1:]).all(1)
    if not again.any():
        return log, grouping
    rows: np.ndarray = np.sort(order[np.concatenate([[True], ~again])])
    note = f"{log.name}: {int(again.sum())} of {len(log)} rows are there twice, and are left out once"
    return log.select(rows, note), [column[rows] for column in grouping]


def _without_leading_on(log: Log, grouping: list[np.ndarray], changes: np.ndarray) -> tuple[Log, list[np.ndarray]]:
    """Without the last rows of episodes, if most of them lead to the row below, of another episode."""
    rows = np.arange(len(log))
    same, counted = _neighbours(log, grouping, rows)
    border = ~same if log.episode is not None else ~same | (counted != 1)
    border &= ~changes[:-1]  # where a group changes within an episode the next state is as it should be
    leads = _leads_to(log, rows[:-1], rows[1:])
    leading = border & leads
    if leading.sum() * 2 <= border.sum() or not (leads & ~border).any():  # episodes of one row may well follow on
        return log, grouping
    leading = np.append(leading, False)
    if _continues(log, grouping, leading, ~np.append(border, False)):
        return log, grouping
    note = (
        f"{log.name}: in the last row of {int(leading.sum())} of {int(border.sum()) + 1} episodes the next state is "
        "the first state of the episode below (the state column moved up by one row?): these rows are left out"
    )
    kept: np.ndarray = np.flatnonzero(~leading)
    return log.select(kept, note), [column[kept] for column in grouping]


def _continues(log: Log, grouping: Sequence[np.ndarray], leading: np.ndarray, inside: np.ndarray) -> bool:
    """Whether the leading rows, booleans ``[N]``, are transitions as those inside of episodes: nothing was reset."""
    change = (log.next_state - log.state) / np.where((scale := log.state.std(0)) > 0, scale, np.inf)
    of_leading, of_inside = (
        np.square(unexplained(log, grouping, change, np.flatnonzero(rows), inside)).mean() for rows in (leading, inside)
    )
    return bool(of_inside < CLEAR * np.square(change[inside]).mean() and of_leading < ALIKE * of_inside)


def _order(log: Log, grouping: Sequence[np.ndarray]) -> np.ndarray:
    """Rows by environment, episode and step; without an episode column they are as they stand."""
    if log.episode is None:
        return np.arange(len(log))
    keys = [*grouping, log.episode, *([] if log.step is None else [log.step])]
    return np.lexsort([np.unique(key, return_inverse=True)[1] for key in keys][::-1])


def _neighbours(log: Log, grouping: Sequence[np.ndarray], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of rows that follow one another whether they are of one episode, and by how much the step counts, ``[n - 1]``."""
    same = np.ones(len(order) - 1, dtype=bool)
    for key in [*grouping, *([] if log.episode is None else [log.episode])]:
        same &= key[order][1:] == key[order][:-1]
    counted = np.ones(len(order) - 1, dtype=np.int64) if log.step is None else np.diff(log.step[order].astype(np.int64))
    return same, counted


def _leads_to(log: Log, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether the next state of each row is the state of another, in float32, ``[n]``."""
    leads: np.ndarray = (log.next_state[rows].astype(np.float32) == log.state[others].astype(np.float32)).all(1)
    return leads
