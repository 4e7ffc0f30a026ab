"""Contexts that were left, so that a return to one of them is recognised at once."""

from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.contracts import VariationalGuide

SAME = 3.0
"""Squared distance of two beliefs, in their variances, the mean over dimensions, up to which they may be of one
context: two that are right about it are 1 apart."""


class Recall:
    """Beliefs about the last few contexts of each of J environments, as they stood before the change that ended them.

    A run that has ended has seen transitions of the next context too, before the change was found. So each run keeps
    what was believed when it began, and that is remembered once the run has lasted. What is believed of the present
    context is not remembered beside it, and a context that is visited again keeps its place.

    Args:
        guide: of the family, over J environments.
        places: number R of contexts that are remembered.
        runs: number H of runs in each environment; run h of environment j is number j H + h.
        members: of the J environments so many at a time are one, and are decided about together.
    """

    TENSORS = ("known", "oldest", "has_before")

    def __init__(self, guide: VariationalGuide, places: int, runs: int, members: int) -> None:
        environments = guide.environments
        self.places, self.runs, self.members = places, runs, members
        self.memory = guide.for_environments(environments * places)
        self.before = guide.for_environments(environments * runs)
        self.known = torch.zeros(environments, places, dtype=torch.bool)
        self.oldest = torch.zeros(environments, dtype=torch.long)
        self.has_before = torch.zeros(environments, runs, dtype=torch.bool)

    def begin(self, index: Tensor, slot: Tensor, many: VariationalGuide, best: Tensor) -> None:
        """Runs begin in slots ``slot`` ``[n]`` of environments ``index`` ``[n]``, beside the runs ``best`` ``[n]``."""
        self.before.assign(index * self.runs + slot, many, index * self.runs + best)
        self.has_before[index, slot] = True

    def move(self, index: Tensor, old: Tensor, new: Tensor) -> None:
        """Runs move from one slot ``[n]`` to another."""
        self.before.assign(index * self.runs + new, self.before, index * self.runs + old)
        self.has_before[index, new] = self.has_before[index, old]

    def remember(self, index: Tensor, slot: Tensor, many: VariationalGuide) -> None:
        """The runs in ``slot`` ``[n]`` have lasted: remember what they ended, if that was another context."""
        there = self.has_before[index, slot]
        index, slot = index[there], slot[there]
        if not len(index):
            return
        here, ended = index * self.runs + slot, _moments(self.before)
        ended = tuple(part[here] for part in ended)
        present = tuple(part[here] for part in _moments(many))
        kept = tuple(part.view(-1, self.places, part.shape[-1])[index] for part in _moments(self.memory))
        distance = self._together(_distance(tuple(part[:, None] for part in ended), kept))
        distance = distance.masked_fill(~self.known[index], torch.inf)
        nearest, place = distance.min(1)
        is_new = nearest > SAME
        place = torch.where(is_new, self.oldest[index], place)
        is_other = self._together(_distance(ended, present)[:, None])[:, 0] > SAME
        index, slot, place, is_new = (part[is_other] for part in (index, slot, place, is_new))
        self.memory.assign(index * self.places + place, self.before, index * self.runs + slot)
        self.known[index, place] = True
        self.oldest[index] = torch.where(is_new, (place + 1) % self.places, self.oldest[index])

    def _together(self, distance: Tensor) -> Tensor:
        """The mean over the members of each environment, in each of their rows ``[n, ...]``."""
        mean: Tensor = distance.unflatten(0, (-1, self.members)).mean(1)
        return mean.repeat_interleave(self.members, 0)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that changes."""
        guides = {
            name: {key: value.clone() for key, value in getattr(self, name).state_dict().items()}
            for name in ("memory", "before")
        }
        return guides | {name: getattr(self, name).clone() for name in self.TENSORS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave."""
        for name in ("memory", "before"):
            getattr(self, name).load_state_dict(state[name])
        for name in self.TENSORS:
            setattr(self, name, state[name].clone())


def _moments(guide: VariationalGuide) -> tuple[Tensor, ...]:
    """Means and variances, each ``[J, d]``."""
    posterior = guide.frozen()
    return posterior.mean, posterior.stddev.square()


def _distance(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
    """Of two beliefs, each a mean and a variance ``[..., d]``: squared, in both variances, the mean over dimensions."""
    return ((one[0] - other[0]).square() / (one[1] + other[1])).mean(-1)
