"""Rows of a log that are no transitions: those by which a vector environment reset by itself."""

from collections.abc import Sequence

import numpy as np

from pyro_dynamics.datasets.episodes_of_rows import in_order, numbered
from pyro_dynamics.datasets.log import Log

FAR = 4.0
"""A row leads far away where its squared change is so many times that of most rows."""
EXPLAINED = 0.5
"""It is a transition nevertheless if this share of that, or less, is left by a linear model of the other rows."""


def without_resets(log: Log, grouping: Sequence[np.ndarray], derived: bool) -> tuple[Log, np.ndarray]:
    """The log without the rows that lead from one episode to the first state of the next, and a note if there are any.

    Gymnasium resets in the next step: after the last row of an episode one more leads there, whatever its action. With
    ``AutoresetMode.SAME_STEP``, in stable-baselines3, and in Gymnasium before 1.0 the last row itself does so.

    Args:
        log: with ``episode``, ``step`` or both.
        grouping: columns that environments differ in, each ``[N]``.
        derived: whether its next states are still to be derived: each is then the state of the next row.

    Returns:
        The log, and which of the rows it was given are left, ``[N]``.
    """
    kept = np.ones(len(log), dtype=bool)
    order, same = in_order(log, grouping)
    if log.step is not None:
        same &= np.diff(log.step[order]) == 1
    within = np.diff(numbered(grouping, len(log))[order]) == 0
    last, first = order[:-1][within & ~same], order[1:][within & ~same]
    if derived:
        after = np.full(log.state.shape, np.nan)
        after[order[:-1][within]] = log.state[order[1:][within]]
    else:
        after, ends, first = log.next_state, len(last), _led_to(log, grouping, last)
        last, first = last[first >= 0], first[first >= 0]
        if 2 * len(last) <= ends:
            return log, kept
    if not len(last):
        return log, kept
    scale = np.where((deviation := log.state.std(0)) > 0, deviation, np.inf)
    change = (after - log.state) / scale
    of_last, of_first, of_most = (float(np.nanmedian(np.square(change[rows]).mean(1))) for rows in (last, first, kept))
    if of_first > max(of_last, FAR * of_most):
        resets, words = first, "after the last row of an episode one more leads to the first state of the next one"
    elif of_last > FAR * of_most and not derived:
        resets, words = last, "in the last row of an episode the next state is the first one of the next episode"
    else:  # the episodes may well continue one another
        return log, kept
    ordinary = kept.copy()
    ordinary[[*last, *first]] = False
    rest = unexplained(log, grouping, after - log.state, resets, ordinary)
    if np.square(rest / scale).sum() < EXPLAINED * np.square(change[resets]).sum():
        return log, kept  # such as a first step that is the fastest one of its episode
    kept[resets] = False
    note = f"{log.name}: {words}, as vector environments reset by themselves: these {len(resets)} rows are left out"
    return log.select(np.flatnonzero(kept), note), kept


def unexplained(
    log: Log, grouping: Sequence[np.ndarray], change: np.ndarray, rows: np.ndarray, ordinary: np.ndarray
) -> np.ndarray:
    """What a linear model of the ordinary rows of their environment leaves of the changes in some rows, ``[n, S]``.

    Args:
        log: with states and actions.
        grouping: columns that environments differ in, each ``[N]``.
        change: of each row, ``[N, S]``; NaN where it is unknown.
        rows: which are asked for.
        ordinary: which rows the model is fitted to, booleans ``[N]``.
    """
    given = np.concatenate([np.ones((len(log), 1)), log.state, log.action], axis=1)
    key, rest = numbered(grouping, len(log)), change[rows]
    for environment in np.unique(key[rows]):
        fitted = (key == environment) & ordinary & np.isfinite(change).all(1)
        here = key[rows] == environment
        weights = np.linalg.lstsq(given[fitted], change[fitted], rcond=None)[0]
        rest[here] -= given[rows[here]] @ weights
    return np.nan_to_num(rest)


def _led_to(log: Log, grouping: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """For each of these rows the next one of its environment whose state is its next state; -1 where there is none."""
    environment = numbered(grouping, len(log))[:, None]
    states = np.concatenate([environment, log.state], axis=1).astype(np.float32)
    wanted = np.concatenate([environment, log.next_state], axis=1)[rows].astype(np.float32)
    both = np.concatenate([states, wanted]) + np.float32(0)  # which turns -0 into 0: they are compared as bytes
    number = np.unique(both.view(np.dtype((np.void, both.strides[0]))), return_inverse=True)[1].ravel()
    states_of, wanted_of = number[: len(log)], number[len(log) :]
    places = np.sort(states_of * len(log) + np.arange(len(log)))  # by state, and then by row
    at = np.searchsorted(places, wanted_of * len(log) + rows, side="right")
    found = places[np.minimum(at, len(log) - 1)]
    return np.where((at < len(log)) & (found // len(log) == wanted_of), found % len(log), -1)
