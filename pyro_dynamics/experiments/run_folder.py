"""The folder of a run: configuration, metrics, transitions and checkpoints."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments.files import make_folder, write_json, write_json_lines, write_whole
from pyro_dynamics.transitions import Transitions


def is_content(path: Path) -> bool:
    """Whether this is more than what is left of a run that was killed before it had a configuration."""
    return not path.is_dir() and path.name != "config.json.part"


class RunFolder:
    """``config.json``, ``metrics.jsonl``, ``transitions/round-000.npz`` ... and ``checkpoints/round-000.pt`` ...

    A round counts once its checkpoint, which is written last, is there; what a killed run left of a later round is
    ignored and written again.

    Args:
        path: the folder.
        config: what ``config.json`` holds.
    """

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """A new run.

        Raises:
            UserError: if something is there already, or the folder cannot be made.
        """
        if path.exists() and (not path.is_dir() or any(map(is_content, path.rglob("*")))):
            raise UserError(
                f"{path} exists already: choose another --out, or go on with a training by train --resume {path}"
            )
        for part in ("transitions", "checkpoints"):
            make_folder(path / part)
        write_json(path / "config.json", config)
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that was there before.

        Raises:
            UserError: if the folder does not hold one.
        """
        try:
            config = json.loads((path / "config.json").read_text())
        except OSError:
            raise UserError(
                f"{path} is not a run folder: it has no readable config.json; make one with train"
            ) from None
        except ValueError as fault:
            raise UserError(f"{path / 'config.json'} is not JSON: {fault}") from None
        if not isinstance(config, dict):
            raise UserError(f"{path / 'config.json'} does not hold a configuration")
        return cls(path, config)

    @property
    def last_round(self) -> int | None:
        """The newest whole round, or None before the first."""
        numbers = [file.stem.removeprefix("round-") for file in self.path.glob("checkpoints/round-*.pt")]
        return max((int(number) for number in numbers if number.isdecimal()), default=None)

    def save_config(self, config: dict[str, Any]) -> None:
        """Replace the configuration (a resumed run may have more rounds)."""
        self.config = config
        write_json(self.path / "config.json", config)

    def save_round(
        self, m: int, data: Transitions, rows: Sequence[dict[str, Any]], state: dict[str, Any], keep: Sequence[int]
    ) -> None:
        """Write round m, its checkpoint last; older checkpoints are dropped unless in ``keep``."""
        write_whole(self._transitions(m), lambda file: np.savez(file, allow_pickle=False, **data.arrays()))
        earlier = [row for row in self.metrics() if row["round"] < m]
        write_json_lines(self.path / "metrics.jsonl", [*earlier, *rows])
        write_whole(self._checkpoint(m), lambda file: torch.save(state, file))
        for old in range(m):
            if old not in keep:
                self._checkpoint(old).unlink(missing_ok=True)

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of ``metrics.jsonl``.

        Raises:
            UserError: if it holds anything else.
        """
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return []
        try:
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            last = self.last_round
            return [row for row in rows if row["round"] <= (last if last is not None else -1)]
        except (ValueError, KeyError, TypeError) as fault:
            raise UserError(f"{file} does not hold metrics: {fault}") from None

    def transitions(self) -> list[Transitions]:
        """The transitions of each whole round."""
        last = self.last_round
        return [] if last is None else [Transitions.load(self._transitions(m)) for m in range(last + 1)]

    def checkpoint(self, m: int | None = None) -> dict[str, Any]:
        """The state saved with round m, the newest by default.

        Raises:
            UserError: if there is none, or the file is not a checkpoint.
        """
        m = self.last_round if m is None else m
        if m is None:
            raise UserError(f"{self.path} holds no checkpoint yet: go on with it by train --resume {self.path}")
        file = self._checkpoint(m)
        if not file.exists():
            there = sorted(int(other.stem.removeprefix("round-")) for other in file.parent.glob("round-*.pt"))
            raise UserError(f"{self.path} has no checkpoint of round {m}: it has {there}")
        try:
            return torch.load(file, weights_only=True)
        except Exception as fault:  # torch raises many kinds for a file that is not a checkpoint
            raise UserError(f"{file} is not a checkpoint: {str(fault).splitlines()[0]}") from None

    def _transitions(self, m: int) -> Path:
        return self.path / "transitions" / f"round-{m:03d}.npz"

    def _checkpoint(self, m: int) -> Path:
        return self.path / "checkpoints" / f"round-{m:03d}.pt"
