"""Data of which some is in other units than the rest: degrees beside radians, mm beside m."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from pyro_dynamics.unusual_numbers import listed, name_of

APART = 100.0
"""Numbers of two environments are in other units, perhaps, if those of one spread so many times as far."""


def other_units(blocks: Mapping[str, np.ndarray], names: Sequence[str] = ()) -> str:
    """A warning where an angle seems to be in degrees in some of the data and in radians in the rest; else nothing.

    Or where the numbers of some of the data are a hundred times as large as those of the rest, or more.

    Args:
        blocks: states ``[n, S]`` by what they are called.
        names: of the S entries.
    """
    found, apart = [], []
    far = {what: np.abs(state).max(0) for what, state in blocks.items()}
    spread = {what: state.std(0) for what, state in blocks.items()}
    for entry in range(len(next(iter(far.values())))):
        least, most = (pick(spread, key=lambda what: spread[what][entry]) for pick in (min, max))
        ratio = spread[most][entry] / max(spread[least][entry], 1e-30)
        turns = far[least][entry] <= 1.01 * 2 * math.pi < far[most][entry] <= 1.01 * 360
        if turns and 0.5 < ratio / math.degrees(1) < 2:
            found.append(
                f"{name_of(names, entry)} goes to {far[least][entry]:.3g} in {least} and to {far[most][entry]:.3g} in "
                f"{most}"
            )
        elif gap := _gap({what: values[entry] for what, values in spread.items() if values[entry] > 0}):
            apart.append(f"{name_of(names, entry)} spreads by {gap}")
    if found:
        return f"{listed(found)}: if that is an angle, radians and degrees are mixed: convert one of them"
    if not apart:
        return ""
    return (
        f"{listed(apart)}: if they are in other units, such as mm beside m, convert them; if not, the scale of the "
        "networks is that of the larger ones"
    )


def _gap(spread: Mapping[str, float]) -> str:
    """Two neighbours, in the order of their size, that are further apart than :data:`APART`, in words; or nothing."""
    ordered = sorted(spread, key=lambda what: spread[what])
    ratios = [spread[more] / spread[less] for less, more in pairwise(ordered)]
    if max(ratios, default=1.0) < APART:
        return ""
    at = ratios.index(max(ratios))
    less, more = ordered[at : at + 2]
    return f"{spread[less]:.2g} in {less} and by {spread[more]:.2g} in {more}"
