"""A context of its own for each training episode: domain randomisation."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.contexts import Context, as_context
from pyro_dynamics.environments.family import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.seeding import derive_seed

EpisodeContexts = Literal["fixed", "list", "range"]
"""Where the contexts of training episodes come from: the same for all rounds, or drawn for each episode."""


@dataclass(frozen=True)
class DrawnFamily(Family):
    """The environments of a training whose episodes drew their contexts: each episode is an environment of its own.

    Attributes:
        base: the family that they were drawn from. A context is a network's input as it is there, however many were
            drawn so far.
        in_a_round: how many were drawn for each round.
    """

    base: Family | None = None
    in_a_round: int = 0

    @classmethod
    def of(cls, base: Family, how: EpisodeContexts, rounds: int, in_a_round: int, seed: int) -> "DrawnFamily":
        """The environments of a run's first rounds, those of round 0 first.

        Args:
            base: the family.
            how: draw from its list, or from the range of that.
            rounds: how many.
            in_a_round: episodes of each.
            seed: of the run.

        Raises:
            UserError: if there is no such range.
        """
        contexts = [one for m in range(rounds) for one in draw_contexts(base, how, in_a_round, seed, m)]
        own = {field.name: getattr(base, field.name) for field in fields(Family)}
        return cls(**{**own, "train": tuple(contexts)}, base=base, in_a_round=in_a_round)

    @property
    def newest(self) -> tuple[Context, ...]:
        """The contexts of the last round."""
        return self.train[-self.in_a_round :]

    def of_newest(self) -> "DrawnFamily":
        """The same with the environments of the last round alone."""
        return replace(self, train=self.newest)

    def encode(self, contexts: Sequence[Context]) -> np.ndarray:
        assert self.base is not None
        return self.base.encode(contexts)

    def parse_context(self, value: Any) -> Context:
        assert self.base is not None
        return self.base.parse_context(value)

    def _require_different(self) -> None:
        """A list of a few contexts gives the same one again: to two episodes that are two environments all the same."""


def draw_contexts(family: Family, how: EpisodeContexts, count: int, seed: int, m: int) -> tuple[Context, ...]:
    """The contexts of the episodes of round m, each from a random stream of its own.

    Args:
        family: with a list ``drawn_from``, or else that of ``train``.
        how: "list" takes each of the list equally often; "range" is uniform between its least and greatest value of
            each hidden parameter.
        count: episodes.
        seed: of the run.
        m: the round.

    Raises:
        UserError: if the contexts are names, and a range is asked for.
    """
    listed = family.drawn_from or family.train
    streams = [np.random.default_rng(derive_seed(seed, "round", m, "context", i)) for i in range(count)]
    if how == "list":
        return tuple(listed[int(rng.integers(len(listed)))] for rng in streams)
    if not family.numeric:
        raise UserError(f"the contexts of {family.name} are names, which have no range: give --episode-contexts list")
    values = columns(listed)
    low, high = values.min(0), values.max(0)
    return tuple(as_context(rng.uniform(low, high).tolist()) for rng in streams)
