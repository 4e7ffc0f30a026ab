"""Angles among the entries of a state, known by their jumps from one end of the range to the other."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pyro_dynamics.unusual_numbers import listed, name_of

FEWEST = 3
"""So many jumps make an angle of an entry whose turn is not that of radians, degrees or its bounds."""
LONG, SMALL = 0.75, 0.25
"""They are longer than this share of its range, and all other changes shorter than that one."""
PARTS = 16
"""And no part of its range, of so many, is left out: a switch, or a glitch, is no angle."""


def likely_angles(
    state: np.ndarray,
    next_state: np.ndarray,
    widths: Sequence[float] | np.ndarray = (),
    known: Mapping[int, float] | Sequence[int] = (),
    names: Sequence[str] = (),
) -> str:
    """A warning where an entry jumps by a whole turn at the ends of its range, as an angle does; else nothing.

    Args:
        state: ``[N, S]``.
        next_state: ``[N, S]``.
        widths: of the bounds of the entries, ``[S]``, which may be infinite; none where there are no bounds.
        known: entries that are named as angles, or the turn that each was taken to have: another one is still found.
        names: of the S entries.
    """
    change = np.asarray(next_state - state, np.float64)
    both = np.concatenate([state, next_state])
    extent = both.max(0) - both.min(0)
    found: list[str] = []
    counted: list[str] = []
    jumping: dict[int, float] = {}
    for entry in range(state.shape[1]):
        turns = {2 * math.pi, 360.0, *(float(widths[entry]) for _ in range(entry < len(widths)))}
        if (entry in known and not isinstance(known, Mapping)) or len(np.unique(both[:, entry])) <= 10:
            continue
        taken = known.get(entry, 0.0) if isinstance(known, Mapping) else 0.0
        for turn in sorted(turn for turn in turns if 0 < turn < math.inf and abs(taken / turn - 1) > 0.02):
            jumps = abs(change[:, entry]) > turn / 2
            rest = change[:, entry] - turn * np.round(change[:, entry] / turn)
            if jumps.any() and abs(rest).max() < turn / 4 and 0.75 * turn < extent[entry] < 1.02 * turn:
                found.append(f"{name_of(names, entry)} ({int(jumps.sum())} times in {len(state)} steps by {turn:.4g})")
                jumping[entry] = turn
                break
        else:
            if entry not in known and (turn := _turn_of(change[:, entry], both[:, entry])):
                counted.append(f"{name_of(names, entry)} (by about {turn:.4g})")
    if not found:
        return _in_another_unit(counted)
    in_radians = all(math.isclose(turn, 2 * math.pi) for turn in jumping.values())
    named = f"{tuple(jumping)}" if in_radians else f"{{{', '.join(f'{at}: {turn:g}' for at, turn in jumping.items())}}}"
    return (
        f"an entry jumps by a whole turn from one end of its range to the other: {listed(found)}: if that is an "
        f"angle, name it, as in BoxTask(env, ..., angles={named}) or fit --angles {' '.join(map(str, jumping))}, or "
        "observe cosine and sine; a network learns the jumps badly"
    )


def _turn_of(change: np.ndarray, values: np.ndarray) -> float:
    """The whole turn of what jumps as an angle does, in whatever unit, such as the counts of an encoder; or 0.

    Args:
        change: over each step, ``[N]``.
        values: all that there are.
    """
    extent = float(np.ptp(values))
    jumps = abs(change) > LONG * extent
    if jumps.sum() < FEWEST or abs(change[~jumps]).max(initial=0.0) > SMALL * extent:
        return 0.0
    if not np.histogram(values, PARTS)[0].all():
        return 0.0
    return float(np.median(abs(change[jumps])) + np.median(abs(change[~jumps])))


def _in_another_unit(counted: Sequence[str]) -> str:
    """The warning of such entries, if there are any."""
    if not counted:
        return ""
    return (
        f"an entry jumps from one end of its range to the other, again and again: {listed(counted)}: if that is an "
        "angle, in counts or turns, write it in radians and name it (angles=, fit --angles), or observe cosine and "
        "sine; a network learns the jumps badly"
    )
