"""Next states of a log that has none: each is the state of the next row of the same episode."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyro_dynamics.datasets.episodes_of_rows import in_order
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.errors import UserError

RANDOM = 0.8
"""Rows are not in order where the squared changes of all entries are this share of those between rows at random."""
FEWEST = 50
"""Rows by which that is judged."""
SHORT = 10
"""Steps do not go back more often than once in so many rows, unless an episode begins."""

WHOLE = "log whole episodes"


def with_next_states(log: Log, grouping: Sequence[np.ndarray], changes: np.ndarray) -> Log:
    """The log with next states, without the last row of each episode, which has none.

    Rows of one episode need not stand together: they are put in order by the columns that environments differ in, by
    ``episode``, and then by ``step``. Without ``episode`` a new one begins wherever ``step`` does not count by one.

    Args:
        log: with ``episode``, ``step`` or both, and any next states.
        grouping: columns that environments differ in, each ``[N]``.
        changes: after which rows these change within an episode, ``[N]``.

    Raises:
        UserError: if no row continues another one, two rows are the same step, or episodes without numbers alternate.
    """
    ordered = log.step is not None
    order, same = in_order(log, grouping)
    counts = np.zeros(0, dtype=np.int64)
    if log.step is not None:
        counted = np.diff(log.step[order].astype(np.int64))
        if log.episode is not None:
            _refuse_repeated(log, order, same & (counted == 0))
        else:
            _refuse_alternating(log, order, same, counted)
        counts = counted[same & (counted > 0)]
        same &= counted == 1
    kept = np.flatnonzero(same)
    if not len(kept):
        raise UserError(
            f"{log.name}: no row continues another one, so that there is no next state: {_by_more(counts) or WHOLE}"
        )
    rows = order[kept]
    pieces = np.cumsum(np.concatenate([[0], ~same]))[kept]
    dropped = len(log) - len(kept)
    note = (
        f"{log.name}: the next state is the state of the next row of the same episode; {dropped} of {len(log)} rows, "
        "the last of each episode, have none and are left out"
    )
    log = replace(log.select(rows, note), next_state=log.state[order[kept + 1]], episode=pieces)
    if (counts > 1).any() and not changes.any():  # else the steps between are those of another environment
        missing = f"{log.name}: {int((counts - 1).sum())} steps are missing within episodes, which are cut there"
        words = _by_more(counts)
        log = replace(log, notes=(*log.notes, f"{missing}: {words}" if words else missing))
    if ordered or not _unordered(log.state, log.next_state, pieces):
        return log
    words = (
        "the states of rows that follow one another are as far apart as those of any two rows of an episode: if the "
        "rows are not in the order of time, give a column step, or sort them"
    )
    return replace(log, notes=(*log.notes, f"{log.name}: {words}"))


def _by_more(counts: np.ndarray) -> str:
    """What to do where steps count by more than one in most rows, as in a log that was thinned; else nothing.

    Args:
        counts: from each row to the next one of its episode, as far as they go up, ``[n]``.
    """
    by, often = np.unique(counts, return_counts=True)
    most = int(by[often.argmax()]) if len(by) else 1
    if most == 1:
        return ""
    return (
        f"step counts by {most} in {int(often.max())} of {len(counts)} places, and must count by one: divide it by "
        f"{most} if the action stayed the same for as long, or log every step"
    )


def _unordered(state: np.ndarray, next_state: np.ndarray, pieces: np.ndarray) -> bool:
    """Whether changes are as large, in every entry, as they are between rows at random (von Neumann's ratio)."""
    if len(state) < FEWEST:
        return False
    number = np.unique(pieces, return_inverse=True)[1]
    counts = np.bincount(number)[:, None]
    means = np.stack([np.bincount(number, column) for column in state.T], axis=1) / counts
    spread = np.square(state - means[number]).sum(0) / max(1, len(state) - len(counts))
    change = np.square(next_state - state).mean(0)
    return bool((change >= RANDOM * 2 * spread)[spread > 0].all() and (spread > 0).any())


def _refuse_repeated(log: Log, order: np.ndarray, repeated: np.ndarray) -> None:
    """Two rows of one environment, one episode and one step are most likely of two environments."""
    if repeated.any():
        at = int(repeated.argmax())
        rows = sorted((int(order[at]), int(order[at + 1])))
        assert log.step is not None
        raise UserError(
            f"{log.name}: rows {rows[0]} and {rows[1]} are both step {log.step[rows[0]]} of one episode: name the "
            "column that distinguishes environments by --group, or count episodes through"
        )


def _refuse_alternating(log: Log, order: np.ndarray, same: np.ndarray, counted: np.ndarray) -> None:
    """Rows of several episodes in turn, as a vector environment gives them, are not known by their steps alone.

    Then steps stay, or often go back, and no episode begins there. A piece of an episode may well follow another one.
    """
    assert log.step is not None
    inside = same & (log.step[order][1:] > log.step.min())
    stays, back = inside & (counted == 0), inside & (counted < 0)
    if stays.any() or back.sum() * SHORT > len(log):
        at = int((stays if stays.any() else back).argmax())
        steps = " and ".join(str(log.step[row]) for row in order[at : at + 2])
        raise UserError(
            f"{log.name}: rows {order[at]} and {order[at + 1]} of one environment are the steps {steps}, so that its "
            "episodes alternate, or its rows are not in order: give a column episode, or name the column that "
            "distinguishes environments by --group"
        )
