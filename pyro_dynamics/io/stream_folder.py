"""What ``pyro-dynamics adapt`` leaves in a folder: written, and read back and checked."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from pyro_dynamics.data_files import Count, Finite, read_arrays, read_json, read_text, structure
from pyro_dynamics.environments import Context
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.clutter import without_clutter
from pyro_dynamics.io.files import write_json_lines, write_whole
from pyro_dynamics.io.schema import parse_rows, require_steps
from pyro_dynamics.io.untrusted_folders import require_inside, unstamped
from pyro_dynamics.transitions import Transitions


class Online(TypedDict):
    """What the results of an adaptation need of its settings."""

    temperature: Finite


class Summary(TypedDict):
    """What they need of ``summary.json``."""

    run: str
    checkpoint: Count
    online: Online


@dataclass(frozen=True)
class Adaptation:
    """T steps in one environment, and the belief after each.

    Attributes:
        rows: the lines of ``steps.jsonl``.
        transitions: what was observed, T rows of environment 0.
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


def write_adaptation(out: Path, made: Adaptation) -> None:
    """Write ``steps.jsonl``, ``transitions.npz`` and, of an agent with a latent, ``beliefs.npz``: draws of the belief
    after each step ``[T, S, d]``, and its log density at them in nats ``[T, S]``.

    What ``diagnose`` found about the steps that were here before is removed.
    """
    if (out / "steps.jsonl").is_file() and (out / "diagnose" / "diagnostics.json").is_file():
        shutil.rmtree(out / "diagnose")
    write_json_lines(out / "steps.jsonl", made.rows)
    write_whole(out / "transitions.npz", lambda file: np.savez(file, allow_pickle=False, **made.transitions.arrays()))
    if made.latent is None or made.log_q is None:
        (out / "beliefs.npz").unlink(missing_ok=True)  # of another agent, whose results were here before
        return
    believed = {"latent": made.latent, "log_q": made.log_q}
    write_whole(out / "beliefs.npz", lambda file: np.savez(file, allow_pickle=False, **believed))


def load_adaptation(folder: Path) -> Adaptation:
    """The results of ``pyro-dynamics adapt`` in ``folder``.

    Raises:
        UserError: if there are none, if an older version made them, or if they are damaged or not finite.
    """
    if not (folder / "steps.jsonl").is_file():
        inside = [file.parent.name for file in without_clutter(folder.glob("*/steps.jsonl"), folder)]
        which = f"one of those inside: {', '.join(inside)}" if inside else "the one that adapt names as its results"
        raise UserError(f"{folder} holds no adaptation: give {which}")
    require_inside(folder)
    rows = _rows(folder / "steps.jsonl")
    has_latent = bool(rows[0]["mean"])
    needed = ["transitions.npz", "summary.json"] + ["beliefs.npz"] * has_latent
    if not all((folder / name).is_file() for name in needed):
        raise _old(folder)
    summary = _summary(folder / "summary.json")
    try:
        transitions = Transitions.load(folder / "transitions.npz")
        transitions.require_finite(str(folder / "transitions.npz"))
    except UserError as fault:
        raise UserError(f"{fault}: run adapt again") from None
    latent, log_q = _beliefs(folder / "beliefs.npz") if has_latent else (None, None)
    fit = len(transitions) == len(rows) and not transitions.environment.any()
    if latent is not None and log_q is not None:
        size = len(rows[0]["mean"])
        fit &= latent.shape[::2] == (len(rows), size) and latent.ndim == 3 and log_q.shape == latent.shape[:2]
    if not fit:  # of two adaptations, one of which was stopped
        raise UserError(f"the files in {folder} do not belong to the same {len(rows)} steps: run adapt again")
    return Adaptation(rows, transitions, latent, log_q, summary)


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
        if not isinstance(summary, dict):
            raise ValueError("it is no JSON object")
        summary = unstamped(summary, file)
        if not {"run", "checkpoint", "online"} <= set(summary):
            raise _old(file.parent)
        structure(summary, Summary)
        if not 0 < summary["online"]["temperature"] <= 1:
            raise ValueError("its temperature is not in (0, 1]")
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} is damaged ({fault}): run adapt again") from None
    return summary


def _old(folder: Path) -> UserError:
    return UserError(f"{folder} was made by an older version: run adapt again")


def _beliefs(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Draws ``[T, S, d]`` and log densities ``[T, S]``, all finite."""
    try:
        arrays = read_arrays(file, ["latent", "log_q"])
        latent, log_q = (arrays[name].astype(np.float32) for name in ("latent", "log_q"))
    except (OSError, ValueError, TypeError) as fault:
        raise UserError(f"{file} is damaged ({fault}): run adapt again") from None
    for name, belief in (("latent", latent), ("log_q", log_q)):
        if not np.isfinite(belief).all():
            step = int(np.argwhere(~np.isfinite(belief))[0][0])
            raise UserError(
                f"{file}: {name} is not finite after step {step}: run adapt again with another --update or --belief"
            )
    return latent, log_q
