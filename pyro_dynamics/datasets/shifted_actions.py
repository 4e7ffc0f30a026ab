"""Whether each action of a log stands beside the state in which it was taken, and not one row too late or too early."""

from collections.abc import Sequence

import numpy as np

MUCH = 0.2
"""Another row's action says so large a share of what the state leaves open of the change, in some entry."""
TIMES = 10.0
"""That is so many times what the row's own action says, in any entry."""
CHOSEN = 0.9
"""A state says at most so large a share of the action there, which else was chosen by that state."""
REVEALED = 0.4
"""And the state before says so large a share of the rest: together they say which action led from one to the other."""
FREE = 0.5
"""Of an action its state and the last action leave so large a share, where that one acts alone."""
SAID = 0.02
"""Entries are left aside of which the state says more than all but this share."""
ROUNDING = 1e-6
"""And those that change by no more than this share of their size, which may be rounding."""
FEWEST = 20
"""So many rows for each number that is fitted."""
MOST = 10_000
"""And as many of each environment are looked at."""

LATE = (
    "the change from a row's state to the next one goes with the action of the next row, and not with its own: if each "
    "action stands beside the state that it led to, move the actions up by one row within each episode; if a "
    "controller takes a speed from the last change, the log is right, and that speed should be a part of the state"
)
EARLY = (
    "the change from a row's state to the next one goes with the action of the row before, and not with its own: if "
    "each action stands one row too early, move the actions down by one row within each episode; if the robot acts a "
    "step late, or its velocity is not observed, let the last action be a part of the state"
)


def shifted_actions(
    state: np.ndarray, action: np.ndarray, next_state: np.ndarray, environment: np.ndarray, episode: np.ndarray
) -> str:
    """A warning if what an action did is not the change that its row shows, but that of the row before or after.

    The first is so in dm_env's time steps, whose action led to their state; the second also where a robot acts late. A
    linear model of the change says which of the actions it goes with. Where a state says which action is taken there,
    the following row's action says where the state went, whatever it does: that is no sign, and the state before then
    says nothing more of it. Nor is it one that the action before acts, where that and the state say the row's own.

    Args:
        state: ``[N, S]``, the rows of each episode in the order of time.
        action: ``[N, A]``.
        next_state: ``[N, S]``.
        environment: of each row, ``[N]``; each has a model of its own.
        episode: of each row, ``[N]``.
    """
    order = episode.argsort(kind="stable")
    first, second = order[:-1], order[1:]
    pair = (episode[first] == episode[second]) & (next_state[first] == state[second]).all(1)
    first, second = first[pair], second[pair]
    inside = _enough(environment[first], FEWEST * (state.shape[1] + 2 * action.shape[1] + 1))
    if not inside.any():
        return ""
    first, second = first[inside], second[inside]
    before, after, own, following = (
        part.astype(np.float64) for part in (state[first], state[second], action[first], action[second])
    )
    if _goes_with(following, own, after - before, before, environment[first]):
        spread, by_state, by_both = (
            _left(following, given, environment[first]) for given in ([], [after], [after, before])
        )
        if ((by_state > (1 - CHOSEN) * spread) & (by_both < (1 - REVEALED) * by_state)).any():
            return LATE
    change = next_state[second].astype(np.float64) - after
    if _goes_with(own, following, change, after, environment[first]):
        spread, by_state = (_left(following, given, environment[first]) for given in ([], [after, own]))
        if (by_state > FREE * spread).all():
            return EARLY
    return ""


def _goes_with(
    action: np.ndarray, own: np.ndarray, change: np.ndarray, state: np.ndarray, environment: np.ndarray
) -> bool:
    """Whether an action says much of the changes from these states, and the row's own next to nothing more."""
    left = _left(change, [state], environment)
    squares = np.square(change).sum(0)
    judged = (left > SAID * squares) & (squares > len(change) * np.square(ROUNDING * np.abs(state).max(0)))
    if not judged.any():
        return False
    both = _left(change, [state, own, action], environment)
    by_action, by_own = (
        ((_left(change, [state, other], environment) - both)[judged] / left[judged]).max() for other in (own, action)
    )
    return bool(by_action >= MUCH and by_action >= TIMES * by_own)


def _enough(environment: np.ndarray, fewest: int) -> np.ndarray:
    """Which rows are the first ones, up to MOST, of an environment that has at least so many, ``[n]``."""
    order = environment.argsort(kind="stable")
    counts = np.bincount(environment)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    found: np.ndarray = (counts[environment] >= fewest) & (place < MOST)
    return found


def _left(values: np.ndarray, given: Sequence[np.ndarray], environment: np.ndarray) -> np.ndarray:
    """What linear models of each environment leave of the squares of values ``[n, S]``, given ``[n, ·]``: ``[S]``."""
    inputs = np.concatenate([np.ones((len(values), 1)), *given], axis=1)
    left = np.zeros(values.shape[1])
    for one in np.unique(environment):
        rows = environment == one
        scale = np.abs(inputs[rows]).max(0)
        here = inputs[rows] / np.where(scale > 0, scale, 1)
        weights = np.linalg.lstsq(here, values[rows], rcond=None)[0]
        left += np.square(values[rows] - here @ weights).sum(0)
    return left
