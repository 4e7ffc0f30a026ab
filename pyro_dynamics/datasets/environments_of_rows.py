"""Whether the rows of a log that stand below one another are of one environment and one episode."""

from collections.abc import Sequence

import numpy as np

from pyro_dynamics.datasets.log import Log

MOST = 64
"""Environments whose rows may alternate."""
NEARER = 0.25
"""Rows alternate where squared changes over so many rows are this share of those from one row to the next."""
FAR = 4.0
"""An episode begins where the squared change to a row is so many times the one from it, and most others."""
FEWEST = 50
"""Rows by which that is judged."""


def episodes_of_ends(ends: np.ndarray, grouping: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, bool]:
    """Which rows are of one episode, by the rows that end one.

    An episode ends where the group changes, too, unless it does so in most rows: then the rows of environments
    alternate, and each is ended by its own.

    Args:
        ends: ``[N]``.
        grouping: columns that environments differ in, each ``[N]``.

    Returns:
        A number for each row ``[N]``; after which rows the group changes and no episode ends, ``[N]``; and whether the
        rows alternate.
    """
    changes = np.append(_differ(grouping, len(ends)) & ~ends[:-1], False)
    if 2 * changes.sum() < len(changes):
        last = ends | changes
        return np.cumsum(last) - last, changes, False
    order = np.lexsort([np.unique(column, return_inverse=True)[1] for column in grouping][::-1])
    episode = np.empty(len(ends), dtype=np.int64)
    sorted_ends = ends[order] | np.append(_differ([column[order] for column in grouping], len(ends)), True)
    episode[order] = np.cumsum(sorted_ends) - sorted_ends
    return episode, np.zeros(len(changes), dtype=bool), True


def ends_of_beginnings(state: np.ndarray, marks: np.ndarray, grouping: Sequence[np.ndarray]) -> np.ndarray | None:
    """The rows that end an episode, ``[N]``, where the marks say which begin one; None where they do not.

    CleanRL's ``dones`` and stable-baselines3's ``episode_starts`` do so. A reset is then the change to the marked row,
    and not the one from it.

    Args:
        state: ``[N, S]``.
        marks: ``[N]``, which rows end an episode, or begin one.
        grouping: columns that environments differ in, each ``[N]``; the rows of several may alternate.
    """
    if len(state) < 3 or state.dtype.kind not in "fiub" or state.ndim != 2:
        return None
    keys = [np.unique(column, return_inverse=True)[1] for column in grouping]
    order = np.lexsort(keys[::-1]) if keys else np.arange(len(state))
    same = ~_differ([column[order] for column in grouping], len(state))
    scaled = state[order] / np.where((deviation := state.std(0)) > 0, deviation, np.inf)
    change = np.square(np.diff(scaled, axis=0)).mean(1)
    at = 1 + np.flatnonzero(marks[order][1:-1] & same[:-1] & same[1:])
    if not len(at) or not same.any():
        return None
    into, out_of, usual = np.median(change[at - 1]), np.median(change[at]), np.median(change[same])
    if into <= FAR * max(out_of, usual):
        return None
    ends = np.zeros(len(state), dtype=bool)
    ends[order[:-1]] = marks[order][1:] & same
    return ends


def changes_of_group(log: Log, grouping: Sequence[np.ndarray]) -> np.ndarray:
    """After which rows the group changes though episode and step continue, ``[N]``.

    Environments that each count their episodes from 0 have rows of one episode and one step: there none does.
    """
    changes = np.zeros(len(log), dtype=bool)
    if log.step is None:
        return changes
    order, same = np.arange(len(log)), np.ones(len(log) - 1, dtype=bool)
    if log.episode is not None:
        episode = np.unique(log.episode, return_inverse=True)[1]
        if len(np.unique(np.stack([episode, log.step]), axis=1).T) < len(log):
            return changes
        order = np.lexsort([log.step, episode])
        same = np.diff(episode[order]) == 0
    counted = np.diff(log.step[order].astype(np.int64))
    others = same & _differ([column[order] for column in grouping], len(log))
    if not (others & (counted == 0)).any():  # else rows of environments alternate
        changes[order[:-1][others & (counted == 1)]] = True
    return changes


def alternation(log: Log, grouping: Sequence[np.ndarray], derived: bool) -> list[str]:
    """A note where the rows seem to be those of several environments in turn, and nothing says which is whose.

    Args:
        log: with next states, unless they are to be derived.
        grouping: columns that environments differ in.
        derived: whether they are.
    """
    if len(log) < FEWEST or _differ(grouping, len(log)).any() or log.step is not None:
        return []
    state = log.state / np.maximum(log.state.std(0), 1e-30)
    after = state if derived else log.next_state / np.maximum(log.state.std(0), 1e-30)
    most = min(MOST, len(log) // 10)
    apart = [np.square(state[lag:] - after[:-lag]).mean() for lag in range(1, most + 1)]
    lag = 1 + int(np.argmin(apart))
    if lag == 1 or apart[lag - 1] > NEARER * apart[0] or apart[0] < 1.0:
        return []
    return [
        f"{log.name}: the rows seem to be those of {lag} environments in turn: a state is much nearer to the one {lag} "
        "rows above than to the last one: give a column that says which row is whose, and group by it"
    ]


def _differ(grouping: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Where a row differs from the one above in a column to group by, ``[N - 1]``."""
    found = np.zeros(max(0, rows - 1), dtype=bool)
    for column in grouping:
        found |= column[1:] != column[:-1]
    return found
