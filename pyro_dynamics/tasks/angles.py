"""Entries of an observation that are angles: they wrap, so that a small turn may be a jump of a whole one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.errors import UserError

TURNS = (2 * math.pi, 360.0)
"""A whole turn in radians and in degrees."""
TOLERANCE = 0.01
"""Bounds are a turn apart if they differ from it by less than this share: some are written 3.14 or 3.15."""


class Angles:
    """Which entries of an observation are angles, and how they wrap.

    Where the bounds of an entry are one turn apart its values wrap there; else it counts through, beyond a turn.

    Args:
        angles: the entries, or a dictionary from entry to the size of a whole turn. Without it that is 360 where the
            bounds of the entry are 360 apart, and else 2 pi.
        space: a Box of observations ``[S]``.

    Raises:
        UserError: if there are no such entries.
    """

    def __init__(self, angles: Sequence[int] | Mapping[int, float], space: Any) -> None:
        size = len(space.low)
        for entry in angles:
            if type(entry) is not int or not 0 <= entry < size:
                raise UserError(f"angles names the entry {entry!r}: an observation has the entries 0 to {size - 1}")
        if len(set(angles)) < len(angles):
            raise UserError(f"angles names an entry twice: {list(angles)}")
        self.entries = tuple(angles)
        self.others = tuple(entry for entry in range(size) if entry not in self.entries)
        self.turn: dict[int, float] = {}
        self.low: dict[int, float] = {}  # of those that wrap
        for entry in self.entries:
            low, width = float(space.low[entry]), float(space.high[entry]) - float(space.low[entry])
            near = next((turn for turn in TURNS if abs(width / turn - 1) < TOLERANCE), TURNS[0])
            turn = float(angles[entry]) if isinstance(angles, Mapping) else near
            if not 0 < turn < math.inf:
                raise UserError(f"a whole turn of the angle {entry} must be a positive number, not {turn}")
            self.turn[entry] = turn
            if abs(width / turn - 1) < TOLERANCE:
                self.low[entry] = low + (width - turn) / 2

    @property
    def feature_dim(self) -> int:
        """The size of :meth:`features`."""
        return len(self.others) + 2 * len(self.entries)

    def features(self, observed: Tensor) -> Tensor:
        """The other entries, then cosine and sine of each angle: ``[..., S] -> [..., feature_dim]``."""
        parts = [observed[..., entry] for entry in self.others]
        for entry, turn in self.turn.items():
            angle = observed[..., entry] * (2 * math.pi / turn)
            parts += [angle.cos(), angle.sin()]
        return torch.stack(parts, dim=-1)

    def shortest(self, change: Tensor) -> Tensor:
        """Changes ``[..., n]``, n >= S, with those of angles as the shortest turn, from minus a half to a half."""
        change = change.clone()
        for entry, turn in self.turn.items():
            change[..., entry] -= turn * (change[..., entry] / turn).round()
        return change

    def wrapped(self, state: Tensor) -> Tensor:
        """States ``[..., n]``, n >= S, with angles where the environment has them."""
        state = state.clone()
        for entry, low in self.low.items():
            state[..., entry] = low + torch.remainder(state[..., entry] - low, self.turn[entry])
        return state
