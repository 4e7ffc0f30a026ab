"""What ``pyro-dynamics adapt`` left in a folder, read back and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_dynamics.data_files import is_count, is_number, read_arrays, read_json, read_text
from pyro_dynamics.environments import Context
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.schema import parse_rows, require_steps
from pyro_dynamics.io.untrusted_folders import require_inside, unstamped
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class Adaptation:
    """T steps in one environment, and the belief after each.

    Attributes:
        rows: the lines of ``steps.jsonl``.
        transitions: what happened, T rows of environment 0.
        latent: draws of the belief after each step, ``[T, S, d]``, or None for an agent without a latent.
        log_q: the belief's log density at them in nats, ``[T, S]``, or None.
        summary: what ``summary.json`` holds: among others the run, its ``checkpoint`` and the settings ``online``.
    """

    rows: list[dict[str, Any]]
    transitions: Transitions
    latent: np.ndarray | None
    log_q: np.ndarray | None
    summary: dict[str, Any]

    @property
    def contexts(self) -> list[Context | None]:
        """The true hidden parameter at each step; None where it is not known, as in logged data."""
        return [tuple(row["context"]) if isinstance(row["context"], list) else row["context"] for row in self.rows]

    @property
    def coverage(self) -> np.ndarray:
        """Share of the targets inside their 90 % intervals, before they were seen, ``[T]``."""
        return np.array([row["coverage"] for row in self.rows], dtype=float)

    @property
    def temperature(self) -> float:
        """Power of the likelihood in the belief's updates."""
        return float(self.summary["online"]["temperature"])


def load_adaptation(folder: Path) -> Adaptation:
    """The results of ``pyro-dynamics adapt`` in ``folder``.

    Raises:
        UserError: if there are none, if an older version made them, or if they are damaged or not finite.
    """
    if not (folder / "steps.jsonl").is_file():
        raise UserError(f"{folder} holds no adaptation: give the folder that pyro-dynamics adapt names as its results")
    require_inside(folder)
    rows = _rows(folder / "steps.jsonl")
    has_latent = bool(rows[0]["mean"])
    needed = ["transitions.npz", "summary.json"] + ["beliefs.npz"] * has_latent
    if not all((folder / name).is_file() for name in needed):
        raise _old(folder)
    summary = _summary(folder / "summary.json")
    try:
        transitions = Transitions.load(folder / "transitions.npz")
    except UserError as fault:
        raise UserError(f"{fault}: run adapt again") from None
    latent = log_q = None
    if has_latent:
        belief = _arrays(folder / "beliefs.npz", ["latent", "log_q"])
        latent, log_q = belief["latent"].numpy(), belief["log_q"].numpy()
    adaptation = Adaptation(rows, transitions, latent, log_q, summary)
    _refuse_other_lengths(folder, adaptation)
    _refuse_not_finite(folder, adaptation)
    return adaptation


def _rows(file: Path) -> list[dict[str, Any]]:
    """The steps; the message names the line that is damaged."""
    try:
        rows = parse_rows(read_text(file))
        if rows and "step" in rows[0] and "coverage" not in rows[0]:
            raise _old(file.parent)
        require_steps(rows)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} is damaged ({fault}): run adapt again") from None
    if not rows:
        raise UserError(f"{file} is empty: run adapt again")
    return rows


def _summary(file: Path) -> dict[str, Any]:
    try:
        summary = read_json(file)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} is damaged ({fault}): run adapt again") from None
    if not isinstance(summary, dict) or not {"run", "checkpoint", "online"} <= set(summary):
        raise _old(file.parent)
    summary = unstamped(summary, file)
    online = summary["online"]
    known = isinstance(online, dict) and is_number(online.get("temperature")) and 0 < online["temperature"] <= 1
    if not known or not isinstance(summary["run"], str) or not is_count(summary["checkpoint"]):
        raise UserError(f"{file} is damaged: run adapt again")
    return summary


def _old(folder: Path) -> UserError:
    return UserError(f"{folder} was made by an older version: run adapt again")


def _arrays(file: Path, names: list[str]) -> dict[str, torch.Tensor]:
    try:
        return {name: torch.from_numpy(array).float() for name, array in read_arrays(file, names).items()}
    except (OSError, ValueError, TypeError) as fault:
        raise UserError(f"{file} is damaged ({fault}): run adapt again") from None


def _refuse_other_lengths(folder: Path, adaptation: Adaptation) -> None:
    """Files of two adaptations, one of which was stopped, do not go together."""
    data, steps = adaptation.transitions, len(adaptation.rows)
    fit = len(data) == steps and not data.environment.any()
    if adaptation.latent is not None and adaptation.log_q is not None:
        latent = adaptation.latent
        fit &= latent.ndim == 3 and len(latent) == steps and adaptation.log_q.shape == latent.shape[:2]
        fit &= latent.ndim == 3 and latent.shape[1] > 0 and latent.shape[2] == len(adaptation.rows[0]["mean"])
    if not fit:
        raise UserError(f"the files in {folder} do not belong to the same {steps} steps: run adapt again")


def _refuse_not_finite(folder: Path, adaptation: Adaptation) -> None:
    for name in ("state", "action", "next_state", "reward"):
        value = getattr(adaptation.transitions, name)
        bad = (~value.isfinite()).reshape(len(value), -1).any(1).nonzero()
        if len(bad):
            step = int(bad[0])
            raise UserError(
                f"{folder / 'transitions.npz'}: {name} is not finite at step {step}: "
                f"find out why, or run adapt again with --steps {max(step, 1)}"
            )
    for name in ("latent", "log_q"):
        belief = getattr(adaptation, name)
        if belief is not None and not np.isfinite(belief).all():
            step = int(np.argwhere(~np.isfinite(belief))[0][0])
            raise UserError(
                f"{folder / 'beliefs.npz'}: {name} is not finite after step {step}: "
                "run adapt again with another --update or --belief"
            )
