"""The rows of ``latents.jsonl``: where the latents of trained and of new contexts lie."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.reproduction.score_rows import Row, in_order


@dataclass(frozen=True)
class LatentMap:
    """The latents of one seed at one checkpoint, in the order of the contexts.

    Attributes:
        contexts: K contexts.
        means: ``[K, d]``.
        trained: which of them were trained on, ``[K]``.
    """

    contexts: list[Any]
    means: np.ndarray
    trained: np.ndarray


class LatentRows:
    """The latents of one family and one agent.

    Args:
        rows: the lines of ``latents.jsonl``.
        family: its name.
        agent: whose latents.

    Raises:
        UserError: a row lacks a key.
    """

    def __init__(self, rows: Iterable[Row], family: str, agent: str = "latent") -> None:
        self.rows = []
        for row in rows:
            missing = [
                key for key in ("family", "agent", "seed", "split", "checkpoint", "context", "mean") if key not in row
            ]
            if missing:
                raise UserError(f"a row of the latents has no {missing[0]}: {dict(row)}; evaluate that run again")
            if (row["family"], row["agent"]) == (family, agent) and row["mean"]:
                self.rows.append(row)
        self.seeds = sorted({row["seed"] for row in self.rows})

    def training(self, seed: int) -> dict[str, list[Row]]:
        """For each trained context its rows by round."""
        rows = self._of(seed, "train")
        contexts = in_order({label(row["context"]): row["context"] for row in rows})
        return {
            name: sorted((row for row in rows if label(row["context"]) == name), key=lambda row: row["checkpoint"])
            for name in contexts
        }

    def last(self, seed: int) -> LatentMap | None:
        """Trained and new contexts at the last checkpoint of the tests; None before there is one."""
        tested = self._of(seed, "test")
        at = max((row["checkpoint"] for row in tested), default=None)
        if at is None:
            return None
        # A context that is both counts as a trained one.
        found = {label(row["context"]): (row, False) for row in tested if row["checkpoint"] == at}
        for name, rows in self.training(seed).items():
            before = [row for row in rows if row["checkpoint"] <= at]
            if before:
                found[name] = (before[-1], True)
        order = in_order({name: row["context"] for name, (row, _) in found.items()})
        return LatentMap(
            list(order.values()),
            np.array([found[name][0]["mean"] for name in order]),
            np.array([found[name][1] for name in order]),
        )

    def _of(self, seed: int, split: str) -> list[Row]:
        return [row for row in self.rows if (row["seed"], row["split"]) == (seed, split)]
