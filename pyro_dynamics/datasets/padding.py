"""Rows of zeros by which episodes were filled up to one length, as in batches for recurrent networks."""

from collections.abc import Sequence

import numpy as np

from pyro_dynamics.datasets.episodes_of_rows import in_order
from pyro_dynamics.datasets.log import Log

LARGE = 0.99
"""A state jumps to 0 if the change is larger than this share of all that do not lead there."""


def without_padding(log: Log, grouping: Sequence[np.ndarray], derived: bool) -> tuple[Log, np.ndarray]:
    """The log without rows of zeros at the ends of episodes, and a note if there are any.

    Zeros that an episode came to by itself, such as those of a robot that stands at the origin, are left.

    Args:
        log: with ``episode``, ``step`` or both.
        grouping: columns that environments differ in, each ``[N]``.
        derived: whether its next states are still to be derived: each is then the state of the next row.

    Returns:
        The log, and which of the rows it was given are left, ``[N]``.
    """
    kept = np.ones(len(log), dtype=bool)
    parts = [log.state, log.action, *([] if log.reward is None else [log.reward[:, None]])]
    filled = (np.concatenate(parts, axis=1) != 0).any(axis=1)
    if filled.all() or not filled.any():
        return log, kept
    order, same = in_order(log, grouping)
    if log.step is not None:
        same &= np.diff(log.step[order]) == 1
    starts = np.flatnonzero(np.append(True, ~same))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(log))))
    place = np.arange(len(log))
    last = np.maximum.reduceat(np.where(filled[order], place, -1), starts)  # of each episode, that is no zero
    padding = place > last[number]
    last = last[np.unique(number[padding])]
    last = last[last >= 0]
    if not _jumps(log, order, same & filled[order][1:], last, derived):
        return log, kept
    kept[order[padding]] = False
    if not derived:  # next states that were derived from padded states
        into = order[last]
        kept[into[~log.next_state[into].any(1)]] = False
    note = f"{log.name}: {int((~kept).sum())} rows at the ends of episodes are padding, all zeros: they are left out"
    return log.select(np.flatnonzero(kept), note), kept


def _jumps(log: Log, order: np.ndarray, follows: np.ndarray, last: np.ndarray, derived: bool) -> bool:
    """Whether most of these rows, of which zeros are the next ones, do not lead to 0, or only by a jump.

    Args:
        log: which.
        order: its rows by episode, ``[N]``.
        follows: which of them are no zeros, and of the same episode as the one before, ``[N - 1]``.
        last: places in this order.
        derived: whether there are no next states.
    """
    if not len(last) or not follows.any():
        return False
    scale = np.where((deviation := log.state.std(0)) > 0, deviation, np.inf)
    state = log.state[order] / scale
    large = np.quantile(np.square(np.diff(state, axis=0)[follows]).mean(1), LARGE)
    away = np.square(state[last]).mean(1) > large
    leads_elsewhere = np.zeros(len(last), dtype=bool) if derived else log.next_state[order[last]].any(1)
    return bool(2 * (away | leads_elsewhere).sum() > len(last))
