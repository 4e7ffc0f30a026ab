"""Contexts that were left, so that a return to one of them is recognised at once."""

from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.contracts import VariationalGuide

NOWHERE = -1


class Recall:
    """Beliefs about the last few contexts of each of J environments, as they stood before the change that ended them.

    A run that has ended has seen transitions of the next context too, before the change was found. So each run keeps
    what was believed when it began, and that is what is remembered when it is found to have been a change.

    Args:
        guide: of the family, over J environments.
        places: number R of contexts that are remembered.
        runs: number H of runs in each environment; run h of environment j is number j H + h.
    """

    TENSORS = ("known", "oldest", "source", "source_before")

    def __init__(self, guide: VariationalGuide, places: int, runs: int) -> None:
        environments = guide.environments
        self.places, self.runs = places, runs
        self.memory = guide.for_environments(environments * places)
        self.before = guide.for_environments(environments * runs)
        self.known = torch.zeros(environments, places, dtype=torch.bool)
        self.oldest = torch.zeros(environments, dtype=torch.long)
        # From which place a run was recalled, and from which the run that it would end.
        self.source = torch.full((environments, runs), NOWHERE)
        self.source_before = torch.full((environments, runs), NOWHERE)

    def begin(self, index: Tensor, slot: Tensor, many: VariationalGuide, best: Tensor, place: int = NOWHERE) -> None:
        """Runs begin in places ``slot`` ``[n]`` of environments ``index`` ``[n]``, beside the runs ``best`` ``[n]``."""
        self.before.assign(index * self.runs + slot, many, index * self.runs + best)
        self.source_before[index, slot] = self.source[index, best]
        self.source[index, slot] = place

    def move(self, index: Tensor, old: Tensor, new: Tensor) -> None:
        """Runs move from one slot ``[n]`` to another."""
        self.before.assign(index * self.runs + new, self.before, index * self.runs + old)
        for tensor in (self.source, self.source_before):
            tensor[index, new] = tensor[index, old]

    def remember(self, index: Tensor, slot: Tensor) -> None:
        """The runs in ``slot`` ``[n]`` were a change: remember what they ended, in its own place if it has one."""
        own = self.source_before[index, slot]
        place = torch.where(own == NOWHERE, self.oldest[index], own)
        self.memory.assign(index * self.places + place, self.before, index * self.runs + slot)
        self.known[index, place] = True
        self.oldest[index] = torch.where(own == NOWHERE, (place + 1) % self.places, self.oldest[index])
        forgotten = (self.source[index] == place[:, None]) & (own == NOWHERE)[:, None]
        self.source[index] = self.source[index].masked_fill(forgotten, NOWHERE)

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
