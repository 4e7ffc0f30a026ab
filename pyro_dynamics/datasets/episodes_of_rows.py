"""Episodes that are not what their columns say: a number that returns, an end within one, steps that count through."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyro_dynamics.datasets.log import Log

FEWEST = 4
"""Where rows of one episode stand together in pieces of so many or more, on average, episodes do not alternate."""


def separate_returning(log: Log, grouping: Sequence[np.ndarray], derived: bool) -> Log:
    """The log with a number of its own for each episode that has that of another one, and a note if there are any.

    Sessions may count their episodes from 0 each. Without steps nothing else says where an episode begins than that
    rows of others stand above it. In a vector environment they do so above each row: such episodes stay as they are.

    Args:
        log: with next states, unless they are to be derived.
        grouping: columns that environments differ in, each ``[N]``.
        derived: whether they are.
    """
    if log.episode is None or log.step is not None:
        return log
    key = numbered((*grouping, log.episode), len(log))
    begins = np.append(True, key[1:] != key[:-1])
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], len(log)) - 1
    if len(starts) * FEWEST > len(log):
        return log
    order = np.argsort(key[starts], kind="stable")  # pieces of one episode one below the other
    returns = np.diff(key[starts][order]) == 0
    if not derived:
        before, after = log.next_state[lasts[order[:-1]]], log.state[starts[order[1:]]]
        returns &= (before.astype(np.float32) != after.astype(np.float32)).any(1)
    if not returns.any():
        return log
    number = np.empty(len(starts), dtype=np.int64)
    new = np.append(True, (np.diff(key[starts][order]) != 0) | returns)
    number[order] = order[new][np.cumsum(new) - 1]  # that of its first piece, so that rows stay in their order
    note = (
        f"{log.name}: the number of an episode returns after rows of others in {int(returns.sum())} places, first in "
        f"row {int(starts[order[1:][returns]].min())}: another one begins there; if it is the same, give a column step"
    )
    return replace(log, episode=number[np.cumsum(begins) - 1], notes=(*log.notes, note))


def cut_at_ends(log: Log, grouping: Sequence[np.ndarray], ends: np.ndarray, called: str) -> Log:
    """The log with episodes that end where rows say so, though episode and step continue; and a note where they do.

    A step may count through all episodes. But an end beside another one, or in the first row of an episode, would
    leave an episode of one row: if most are such, the column says something else (a goal is reached, an episode
    begins), and the episodes stay.

    Args:
        log: with ``episode``, ``step`` or both.
        grouping: columns that environments differ in, each ``[N]``.
        ends: rows that end an episode, ``[N]``.
        called: the column that says so, for the note.
    """
    order, same = in_order(log, grouping)
    continues = same if log.step is None else same & (np.diff(log.step[order]) == 1)
    cut = continues & ends[order][:-1]
    if not cut.any():
        return log
    columns = " and ".join(name for name in ("episode", "step") if getattr(log, name) is not None)
    what = (
        f"{log.name}: {called} says in {int(cut.sum())} rows, first in row {int(order[cut.argmax()])}, that an episode "
        f"ends, where by {columns} it continues"
    )
    alone = ends[order][1:] | ~np.append(False, (continues & ~cut)[:-1])
    if 2 * (cut & alone).sum() > cut.sum():
        note = f"{what}: most of these would leave episodes of one row, and none is taken for an end"
        return replace(log, notes=(*log.notes, note))
    step, episode = log.step, log.episode
    if episode is not None:
        episode = np.empty(len(log), dtype=np.int64)
        episode[order] = np.cumsum(np.append(True, ~same | cut))
    if log.step is not None:
        starts = np.flatnonzero(np.append(True, ~continues | cut))
        gone = np.where(np.append(False, cut)[starts], log.step[order][starts] - log.step.min(), 0)
        step = np.empty_like(log.step)
        step[order] = log.step[order] - np.repeat(gone, np.diff(np.append(starts, len(log))))
    return replace(log, step=step, episode=episode, notes=(*log.notes, f"{what}: it ends there"))


def numbered(columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """A number for each row ``[N]``, the same where rows agree in all columns, each ``[N]``."""
    key = np.zeros(rows, dtype=np.int64)
    for column in columns:
        own = np.unique(column, return_inverse=True)[1]
        key = np.unique(key * (own.max() + 1) + own, return_inverse=True)[1]
    return key


def in_order(log: Log, grouping: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows in order ``[N]``, and which of them are of the same environment and episode as the one before ``[N - 1]``.

    They are put in order by the columns that environments differ in, by ``episode``, and then by ``step``; without
    ``episode`` the steps stay as they stand.
    """
    keys = [np.unique(column, return_inverse=True)[1] for column in grouping]
    if log.episode is not None:
        keys.append(np.unique(log.episode, return_inverse=True)[1])
    sorting = [*keys, log.step] if log.episode is not None and log.step is not None else keys
    order = np.lexsort(sorting[::-1]) if sorting else np.arange(len(log))  # stable; its last key decides first
    same = np.ones(len(log) - 1, dtype=bool)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    return order, same
