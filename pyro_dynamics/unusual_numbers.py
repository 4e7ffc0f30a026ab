"""Numbers that a network cannot learn from as they stand, found in transitions and said in words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

FAR = 10.0
"""A number lies far outside if it is this many widths of the range beyond the range that was trained on."""
BEYOND = 0.25
"""An action lies far outside of its bounds if it is this share of their distance beyond one of them."""
DIGITS = 0.02
"""Digits are lost where rounding is more than this share of the spread of the changes."""
OUTLYING = 100.0
"""A row is an outlier this many times as far out as 98 % of all."""
REPEATED = 0.05
"""Share of rows that may have state and action of another one."""
ALIKE = 10
"""Fewer rows that move may be those of another environment by chance: the first ones, before a parameter acts."""
SAME = 1e-5
"""Numbers are one, in some unit, if they differ by no more than this share."""
SHOWN = 3
"""So many entries are named, of more the number alone."""


def far_outside(
    low: np.ndarray, high: np.ndarray, state: np.ndarray, names: Sequence[str] = ()
) -> tuple[np.ndarray, str]:
    """Where states lie far outside of those that networks were trained on.

    Entries that are 0 or 1 alone, such as contacts and terminations, may change.

    Args:
        low: of what was trained on, ``[S]``.
        high: likewise.
        state: ``[N, S]``.
        names: of the S entries.

    Returns:
        Which rows have an entry that does, ``[N]``, and which entries in words: nothing where there are none.
    """
    rounding = 4 * np.finfo(np.float32).eps * np.maximum(abs(low), abs(high)) + 1e-12
    width = np.maximum(high - low, rounding)
    beyond = np.maximum(low - state, state - high) / width > FAR
    beyond[:, np.isin(np.concatenate([state, [low, high]]), (0.0, 1.0)).all(0)] = False
    found = []
    for entry in np.flatnonzero(beyond.any(0)):
        there = state[beyond[:, entry], entry]
        worst = there[abs(there - low[entry]).argmax()]
        was = (
            f"stood still at {low[entry]:.4g}"
            if high[entry] - low[entry] <= rounding[entry]
            else f"lay between {low[entry]:.3g} and {high[entry]:.3g}"
        )
        found.append(f"{name_of(names, entry)} {was} in all that was trained on, and is {worst:.3g} now")
    return beyond.any(1), listed(found)


def far_actions(low: np.ndarray, high: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, str]:
    """Where actions lie far outside of the bounds within which networks were trained, and every plan stays.

    Args:
        low: the bounds ``[A]``.
        high: likewise.
        action: ``[N, A]``.

    Returns:
        Which rows have an entry that does, ``[N]``, and which entries in words: nothing where there are none.
    """
    past = np.maximum(low - action, action - high)
    beyond = past > BEYOND * (high - low)
    found = [
        f"action {entry} is {action[past[:, entry].argmax(), entry]:.3g}, and its bounds are {low[entry]:.3g} and "
        f"{high[entry]:.3g}"
        for entry in np.flatnonzero(beyond.any(0))
    ]
    return beyond.any(1), listed(found)


def lost_digits(state: np.ndarray, next_state: np.ndarray, names: Sequence[str] = ()) -> str:
    """A warning where float32 cannot hold the changes of a large number; else nothing.

    Rounding counts beside the spread of the changes, as networks standardise them; where all are the same, such as
    those of a time stamp or a counter, what float32 makes of them counts beside their size.

    Args:
        state: ``[N, S]``, float64 where they are known so well.
        next_state: ``[N, S]``.
        names: of the S entries.
    """
    change, largest = np.asarray(next_state - state, np.float64), np.maximum(abs(state), abs(next_state)).max(0)
    made = np.asarray(next_state, np.float32).astype(np.float64) - np.asarray(state, np.float32) - change
    constant = np.ptp(change, axis=0) <= 8 * np.finfo(np.float64).eps * largest  # as float64 rounds it
    spread = np.where(constant, abs(change).mean(0), change.std(0))
    rounding = np.where(constant, abs(made).max(0), np.finfo(np.float32).eps * largest)
    found = [
        f"{name_of(names, entry)} (about {abs(state[:, entry]).max():.3g}, whose changes of {spread[entry]:.2g} "
        f"float32 rounds to {rounding[entry]:.2g})"
        for entry in np.flatnonzero((rounding > DIGITS * spread) & (spread > 0))  # what stands still loses nothing
    ]
    if not found:
        return ""
    return f"the numbers are too large for their changes: {listed(found)}: subtract a constant from them"


def coarse_actions(action: np.ndarray) -> str:
    """A warning where float32 rounds the values of an action to few others, as :func:`lost_digits` has it of states."""
    rounding, spread = np.finfo(np.float32).eps * abs(action).max(0), action.std(0)
    found = [
        f"action {entry} (about {abs(action[:, entry]).max():.3g}, which spreads by {spread[entry]:.2g}, and float32 "
        f"rounds it to {rounding[entry]:.2g})"
        for entry in np.flatnonzero((rounding > DIGITS * spread) & (spread > 0))
    ]
    return f"numbers are too large for their spread: {listed(found)}: subtract a constant from them" if found else ""


def outliers(state: np.ndarray, next_state: np.ndarray, place: Callable[[int], str], names: Sequence[str] = ()) -> str:
    """A warning where few rows lie so far out that all scales are theirs; else nothing.

    Args:
        state: ``[N, S]``; fewer than 100 rows are not judged.
        next_state: ``[N, S]``.
        place: says where a row is, for people.
        names: of the S entries.
    """
    if len(state) < 100:
        return ""
    found = []
    for what, values in (("", state), ("the change of ", np.asarray(next_state - state, np.float64))):
        ordered = np.sort(values, axis=0)
        cut = max(1, len(values) // 100)
        low, high = ordered[cut], ordered[-1 - cut]
        width = np.where(high > low, high - low, np.inf)
        beyond = np.maximum(low - values, values - high) / width
        for entry in np.flatnonzero(beyond.max(0) > OUTLYING):
            row = int(beyond[:, entry].argmax())
            found.append(
                f"{what}{name_of(names, entry)} (in {int((beyond[:, entry] > OUTLYING).sum())} of {len(values)} rows; "
                f"{values[row, entry]:.3g} in {place(row)}, where nearly all lie between {low[entry]:.3g} and "
                f"{high[entry]:.3g})"
            )
    if not found:
        return ""
    return f"a few rows decide the scale of all: {listed(found)}: if a sensor failed there, leave these rows out"


def repeated(state: np.ndarray, action: np.ndarray, next_state: np.ndarray, environment: np.ndarray) -> str:
    """A warning where many rows are there more than once; else nothing.

    Rows that do not move, and states of whole numbers, may well be.

    Args:
        state: ``[N, S]``.
        action: ``[N, A]``.
        next_state: ``[N, S]``.
        environment: ``[N]``.
    """
    whole: np.ndarray = np.ascontiguousarray(np.concatenate([state, action, environment[:, None]], 1, dtype=np.float64))
    group = np.unique(whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))), return_inverse=True)[1].ravel()
    counted = (next_state != state).any(1) & (state % 1 != 0).any(1)
    again = int((np.bincount(group) - 1)[np.bincount(group, counted) > 0].sum())
    if again < REPEATED * len(state):
        return ""
    return (
        f"{again} of {len(state)} rows have the state and action of another row of their environment, to the last "
        "digit: rows that are there twice count twice, and copies of what is held out are trained on: leave them out"
    )


def shared(state: np.ndarray, action: np.ndarray, next_state: np.ndarray, blocks: Mapping[str, np.ndarray]) -> str:
    """A warning where most rows of a file, or of an environment, are in another one too; else nothing.

    Rows that do not move, and states of whole numbers, may well be.

    Args:
        state: ``[N, S]``, float32 as all of these.
        action: ``[N, A]``.
        next_state: ``[N, S]``.
        blocks: which rows each of them has, ``[n]``, by what it is called.
    """
    if len(blocks) < 2:
        return ""
    whole = np.concatenate([state, action, next_state], 1, dtype=np.float32) + 0.0  # -0 is 0
    odd = np.random.default_rng(0).integers(1 << 62, size=whole.shape[1], dtype=np.uint64) * 2 + 1
    row = np.unique((whole.view(np.uint32) * odd).sum(1), return_inverse=True)[1]  # a hash: rows are many
    counted = (next_state != state).any(1) & (state % 1 != 0).any(1)
    owners = np.zeros(row.max() + 1, dtype=np.int64)
    own = {what: np.unique(row[rows[counted[rows]]]) for what, rows in blocks.items()}
    for rows in own.values():
        owners[rows] += 1
    pairs: dict[str, str] = {}
    for what, rows in own.items():
        if len(rows) >= ALIKE and 2 * (owners[rows] > 1).sum() > len(rows) and len(pairs) < SHOWN:
            other = max((one for one in own if one != what), key=lambda one: np.isin(rows, own[one]).sum())
            if pairs.get(other) != what:
                pairs[what] = other
    if not pairs:
        return ""
    found = [
        f"{int(np.isin(own[what], own[other]).sum())} of the {len(own[what])} rows of {what} are in {other}"
        for what, other in pairs.items()
    ]
    return (
        f"{', '.join(found)}, to the last digit: if one is a copy of the other, or holds it, leave one out: copies of "
        "what is held out are trained on"
    )


def revealing(state: np.ndarray, hidden: np.ndarray, parameters: Sequence[str], names: Sequence[str] = ()) -> str:
    """A warning where an entry of the state is a hidden parameter itself, perhaps in another unit; else nothing.

    Args:
        state: ``[N, S]``.
        hidden: the values of the P parameters in each row, ``[N, P]``.
        parameters: what they are called.
        names: of the S entries.
    """
    found = []
    for column, parameter in zip(hidden.T, parameters, strict=True):
        away, from_mean = column - column.mean(), state - state.mean(0, dtype=np.float64)
        if not away.any():
            continue
        slope = (away @ from_mean) / (away @ away)
        rest = np.abs(from_mean - away[:, None] * slope).max(0)
        line = rest <= SAME * np.abs(from_mean).max(0)
        if len(np.unique(column)) == 2:  # any two numbers lie on a line
            line &= np.abs(state - column[:, None]).max(0) <= SAME * np.abs(column).max()
        found += [f"{name_of(names, entry)} is {parameter} itself" for entry in np.flatnonzero(line & (slope != 0))]
    if not found:
        return ""
    return (
        f"{listed(found)} in every row, perhaps in another unit: where the state says what is hidden, the latent has "
        "nothing to explain, and what is believed about it means nothing: leave it out of the state"
    )


def identifying(state: np.ndarray, environment: np.ndarray, episode: np.ndarray) -> str:
    """A warning where an entry of the state is constant in each environment, and not the same in all; else nothing.

    So is any function of a hidden parameter. What each episode chooses, such as a goal, is none: environments of a
    single episode are not judged.

    Args:
        state: ``[N, S]``.
        environment: ``[N]``, from 0.
        episode: ``[N]``.
    """
    pairs = np.unique(np.stack([environment, episode]), axis=1)
    if np.bincount(pairs[0]).min() < 2:
        return ""
    order = np.argsort(environment, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(environment[order])))
    low, high = (extreme.reduceat(state[order], starts, axis=0) for extreme in (np.minimum, np.maximum))
    size = SAME * np.abs(state).max(0)
    entries = np.flatnonzero((high - low <= size).all(0) & (np.ptp(low, axis=0) > size))
    if not len(entries):
        return ""
    return (
        f"{listed([name_of((), entry) for entry in entries])} never changes within an environment, and differs between "
        "them: it says which one it is, so that the latent has nothing to explain, and what is believed about it means "
        "nothing: leave it out of the state"
    )


def name_of(names: Sequence[str], entry: Any) -> str:
    """Of an entry of the state, for a message."""
    return names[entry] if names else f"state {entry}"


def listed(found: Sequence[str]) -> str:
    """The first few, and how many more."""
    rest = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + rest
