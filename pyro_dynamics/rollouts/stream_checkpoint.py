"""What an adaptation has made so far, on the disk: whatever stops it, it loses a second of its steps, and resumes."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_dynamics.data_files import read_arrays, read_text
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.checkpoint_files import load_state, save_state
from pyro_dynamics.io.files import make_folder, write_json_lines, write_whole
from pyro_dynamics.io.reuse import as_stored, differing
from pyro_dynamics.io.schema import parse_rows
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.rollouts.adaptation import AdaptationStep
from pyro_dynamics.rollouts.stream_state import ResumePoint, StreamState
from pyro_dynamics.transitions import Transitions

ROWS = 1000
"""Steps in a part; what a stream holds in memory does not grow beyond them."""
SECONDS = 1.0
"""Between two savings."""
STATE = "state.pt"
"""Written last: how many steps there are, of which settings, and the stream's state after them."""


class StreamCheckpoint:
    """Keeps the steps in one environment in parts of a thousand, with the state from which it resumes.

    Args:
        path: a folder of its own, which is made, and removed by :meth:`remove`.
        settings: all that decides the steps, as JSON knows it.

    Raises:
        UserError: if the folder holds steps of other settings, or is damaged.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, as_stored(settings)
        self.steps, self._kept = 0, None
        self._rows: list[dict[str, Any]] = []
        self._arrays: list[dict[str, Any]] = []
        self._saved = time.monotonic()
        if (path / STATE).is_file():
            self._open()

    def _open(self) -> None:
        state = load_state(self.path / STATE)
        if "memory" in state:
            raise UserError(f"{self.path} is of an older version: finish it with that one, or remove it to begin anew")
        with self._readable():
            steps, settings, self._kept = state["steps"], json.loads(state["settings"]), state["stream_state"]
        if other := differing(settings, self.settings):
            raise UserError(
                f"{self.path} is what is left of an adaptation with another {', '.join(sorted(other))}: finish that "
                f"one with its own flags, or choose another --out, or remove {self.path}"
            )
        self.steps = steps
        first = steps - steps % ROWS
        if steps > first:
            self._rows, arrays = self._part_rows(first), self._part_arrays(first)
            self._arrays = [{name: value[row] for name, value in arrays.items()} for row in range(steps - first)]

    def resume_point(self) -> ResumePoint | None:
        """What was made before; None if nothing was."""
        if self._kept is None:
            return None
        arrays = self.arrays("state", "action")
        state, action = (torch.from_numpy(arrays[name])[:, None] for name in ("state", "action"))
        return ResumePoint(state, action, self._kept)

    def clear(self) -> None:
        """Begin anew."""
        self.remove()
        self.steps, self._kept, self._rows, self._arrays = 0, None, [], []

    def add(self, row: dict[str, Any], step: AdaptationStep, stream_state: StreamState) -> None:
        """Take a step in the one environment, and write when it is time to.

        Raises:
            UserError: if it cannot be written.
        """
        tensors = {name: getattr(step, name)[0] for name in ("state", "action", "next_state", "reward")}
        tensors |= {"latent": step.draws[:, 0], "log_q": step.log_q[:, 0]}
        self._rows.append(row)
        self._arrays.append({**{name: value.numpy() for name, value in tensors.items()}, "seconds": step.seconds})
        self.steps += 1
        if time.monotonic() - self._saved > SECONDS or self.steps % ROWS == 0:
            self.save(stream_state)

    def save(self, stream_state: StreamState) -> None:
        """Write the last part and the stream's state.

        Raises:
            UserError: if they cannot be written.
        """
        if not self._rows:  # a whole part was written with its last step
            return
        make_folder(self.path)
        rows, arrays_file = self._files(self.steps - len(self._rows))
        arrays = {name: np.stack([one[name] for one in self._arrays]) for name in self._arrays[0]}
        write_json_lines(rows, self._rows)
        write_whole(arrays_file, lambda file: np.savez(file, allow_pickle=False, **arrays))
        state = {"steps": self.steps, "settings": json.dumps(self.settings), "stream_state": stream_state.state_dict()}
        save_state(self.path / STATE, state)
        self._saved = time.monotonic()
        if self.steps % ROWS == 0:
            self._rows, self._arrays = [], []

    def rows(self) -> list[dict[str, Any]]:
        """All steps, as lines of ``steps.jsonl``; contexts of several parameters are tuples again."""
        rows = [row for first in range(0, self.steps, ROWS) for row in self._part_rows(first)]
        for row in rows:
            row["context"] = tuple(row["context"]) if isinstance(row["context"], list) else row["context"]
        return rows

    def arrays(self, *names: str) -> dict[str, np.ndarray]:
        """All steps' values by their names: state, action, next_state, reward, latent, log_q, seconds; ``[T, ...]``."""
        parts = [self._part_arrays(first, names) for first in range(0, self.steps, ROWS)]
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def adaptation(self, rows: list[dict[str, Any]], settings: dict[str, Any]) -> Adaptation:
        """All steps as ``diagnose`` reads them from the results, with what :meth:`rows` gave and the settings."""
        arrays = self.arrays("state", "action", "next_state", "reward", "latent", "log_q")
        latent, log_q = (arrays.pop(name) for name in ("latent", "log_q"))
        observed = {name: torch.from_numpy(array) for name, array in arrays.items()}
        environment = torch.zeros(len(rows), dtype=torch.long)
        transitions = Transitions(**observed, environment=environment, step=torch.arange(len(rows)))
        if not latent.shape[-1]:
            return Adaptation(rows, transitions, None, None, settings)
        return Adaptation(rows, transitions, latent, log_q.astype(np.float32), settings)

    def remove(self) -> None:
        """The results are written: forget how they were made."""
        (self.path / STATE).unlink(missing_ok=True)  # first: without it nothing is resumed
        shutil.rmtree(self.path, ignore_errors=True)

    def _files(self, first: int) -> tuple[Path, Path]:
        """Of the part that begins with a step."""
        return self.path / f"steps-{first:08d}.jsonl", self.path / f"steps-{first:08d}.npz"

    def _part_rows(self, first: int) -> list[dict[str, Any]]:
        file, count = self._files(first)[0], min(ROWS, self.steps - first)
        with self._readable():
            rows = parse_rows(read_text(file))[:count]  # a part may have more steps than the state that was to follow
            if len(rows) < count:
                raise ValueError(f"{file.name} has {len(rows)} steps of {count}")
        return rows

    def _part_arrays(self, first: int, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        file, count = self._files(first)[1], min(ROWS, self.steps - first)
        with self._readable():
            arrays = {name: value[:count] for name, value in read_arrays(file, names).items()}
            if any(len(value) < count for value in arrays.values()):
                raise ValueError(f"{file.name} has fewer steps than {count}")
        return arrays

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """One line where a file of this folder is not what was written into it."""
        try:
            yield
        except (OSError, ValueError, KeyError, TypeError, IndexError) as fault:
            raise UserError(f"{self.path} cannot be resumed ({first_line(fault)}): remove it to begin anew") from None
