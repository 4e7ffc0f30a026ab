"""A belief that rests on the last few transitions alone."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.errors import require_positive
from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief


@dataclass(frozen=True)
class WindowConfig:
    """How much is remembered.

    Attributes:
        length: number of transitions; a change is forgotten after as many steps.
    """

    length: int = 20

    def __post_init__(self) -> None:
        require_positive(self, "length")


@BELIEFS.register("window")
class WindowBelief(Belief):
    """Fits the guide to p_0 times the likelihood of each environment's last transitions, all anew at each step."""

    Config = WindowConfig
    config: WindowConfig

    def set_prior(self) -> None:
        super().set_prior()
        # Inputs, targets and environment of what is remembered, the newest last.
        self.rows: tuple[Tensor, Tensor, Tensor] | None = None

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "rows": self.rows}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rows = state["rows"]

    def absorb(
        self, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: torch.Generator
    ) -> None:
        new = (inputs, targets, environment)
        rows = new if self.rows is None else tuple(torch.cat(pair) for pair in zip(self.rows, new, strict=True))
        # How many newer rows of the same environment there are: those with fewer than the window's length stay.
        same = rows[2][:, None] == rows[2]
        newer = same.triu(1).sum(1)
        self.rows = tuple(part[newer < self.config.length] for part in rows)  # type: ignore[assignment]
        assert self.rows is not None
        batch = self.batch(*self.rows)
        self.update_rule.fit(self.model, self.guide, self.base, batch, generator)
