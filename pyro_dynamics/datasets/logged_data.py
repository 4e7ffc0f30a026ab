"""Logged transitions: read, checked, and grouped into environments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.data_files import read_arrays, require_file
from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.transitions import Transitions

ENVIRONMENT = "environment"
"""The default column that identifies environments."""
RESERVED = ("state", "action", "next_state", "reward", "step", "episode")
"""Arrays with a meaning of their own; every other one with a value for each row can group."""


@dataclass(frozen=True)
class Log:
    """What one file or data set holds, not grouped yet.

    Attributes:
        name: of the file or data set, for messages.
        state: ``[n, S]``, float64 as all numbers here.
        action: ``[n, A]``.
        next_state: ``[n, S]``.
        reward: ``[n]``, or None.
        step: ``[n]``, each row's step within its episode, or None where the order of the rows gives it.
        episode: ``[n]``, which rows belong to one episode, or None.
        columns: what rows can be grouped by: name and values ``[n]``.
        bounds: lower and upper bounds of the actions, each ``[A]``, where they are known.
    """

    name: str
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    reward: np.ndarray | None
    step: np.ndarray | None
    episode: np.ndarray | None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    bounds: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.state)


@dataclass(frozen=True)
class LoggedData:
    """Logged transitions of K environments.

    Attributes:
        transitions: N of them, whose ``environment`` counts from 0; their rewards are 0 where none were logged.
        labels: what each environment is called: numbers where the column held quantities, else names.
        column: what they were grouped by.
        rewarded: whether there were rewards.
        bounds: lower and upper bounds of the actions, each ``[A]``; the observed extremes where they are unknown.
    """

    transitions: Transitions
    labels: tuple[Context, ...]
    column: str
    rewarded: bool
    bounds: tuple[np.ndarray, np.ndarray]

    def of(self, name: str) -> "LoggedData":
        """The environment of that name alone.

        Raises:
            UserError: if there is none, naming those that there are.
        """
        names = [label(one) for one in self.labels]
        if name not in names:
            raise UserError(f"there is no environment {name!r} in the data: it has {', '.join(names)}")
        k = names.index(name)
        return LoggedData(self.transitions.of([k]), (self.labels[k],), self.column, self.rewarded, self.bounds)


def group_logs(logs: Sequence[Log], group: str | None, one_alone: bool = False) -> LoggedData:
    """All logs as one, grouped into environments.

    Args:
        logs: at least one.
        group: the column to group by, or several of quantities, written mass,damping. Without it that is
            ``environment`` where every log has it; else several logs are an environment each.
        one_alone: whether a single log without such a column may be an environment too.

    Raises:
        UserError: if the logs do not go together, or there is no such column in one of them.
    """
    refuse_other_sizes(logs)
    if group is None and all(ENVIRONMENT in log.columns for log in logs):
        group = ENVIRONMENT
    if group is not None or (len(logs) == 1 and not one_alone):
        parts = [_column(log, group) for log in logs]
    else:
        parts = [np.full(len(log), name) for log, name in zip(logs, _short_names(logs), strict=True)]
    labels, index = _labels(np.concatenate(parts))
    rewarded = all(log.reward is not None for log in logs)
    environments = np.split(index, np.cumsum([len(log) for log in logs])[:-1])
    data = Transitions.concatenate(
        [_transitions(log, torch.from_numpy(own), rewarded) for log, own in zip(logs, environments, strict=True)]
    )
    low = np.min([log.action.min(0) if log.bounds is None else log.bounds[0] for log in logs], axis=0)
    high = np.max([log.action.max(0) if log.bounds is None else log.bounds[1] for log in logs], axis=0)
    return LoggedData(data, labels, group or "data set", rewarded, (low, high))


def _column(log: Log, group: str | None) -> np.ndarray:
    """What each row of a log is grouped by, ``[n]``; ``[n, P]`` for P columns of quantities."""
    if group is not None and "," in group and group not in log.columns:
        parts = [_column(log, part) for part in group.split(",")]
        names = [name for name, part in zip(group.split(","), parts, strict=True) if part.dtype.kind != "f"]
        if names:
            raise UserError(f"{log.name}: {names[0]} holds no floats: only quantities are grouped by several at once")
        return np.stack(parts, axis=1)
    if group is None or group not in log.columns:
        there = f"its columns are {', '.join(log.columns)}" if log.columns else "it has none that could group"
        raise UserError(
            f"{log.name} has no column {group or ENVIRONMENT!r} that identifies the environments ({there}): name one "
            "by --group, or give a file for each environment"
        )
    values = log.columns[group]
    bad = np.flatnonzero(~np.isfinite(values)) if values.dtype.kind == "f" else np.zeros(0, int)
    if len(bad):
        raise UserError(f"{log.name}: {group} is {values[bad[0]]} in row {bad[0]} ({len(bad)} of {len(log)} rows)")
    return values


def _short_names(logs: Sequence[Log]) -> list[str]:
    """The last part of each name, where these differ."""
    short = [Path(log.name).stem for log in logs]
    names = short if len(set(short)) == len(short) else [log.name for log in logs]
    if len(set(names)) < len(names):
        raise UserError(f"the same data is given more than once: {', '.join(names)}")
    return names


def _labels(values: np.ndarray) -> tuple[tuple[Context, ...], np.ndarray]:
    """Labels in order, and which of them each row has: quantities are floats; whole numbers and text are names."""
    unique, index = np.unique(values, return_inverse=True, axis=0)
    if values.ndim == 2:
        return tuple(tuple(map(float, row)) for row in unique), index.reshape(-1)
    if values.dtype.kind == "f":
        return tuple(float(value) for value in unique), index
    return tuple(str(value) for value in unique.tolist()), index


def _transitions(log: Log, environment: Tensor, rewarded: bool) -> Transitions:
    """The rows of a log, each episode in the order of its steps."""
    order = np.arange(len(log))
    step = log.step
    if log.episode is not None:
        keys = (order if step is None else step, np.unique(log.episode, return_inverse=True)[1])
        order = np.lexsort(keys)
        if step is None:
            step = _counted(keys[1][order])[np.argsort(order)]
    if step is None:
        step = _counted(_pieces(log, environment.numpy()))
    rewards = log.reward if rewarded and log.reward is not None else np.zeros(len(log))
    state, action, next_state, reward = (
        torch.from_numpy(part.astype(np.float32)) for part in (log.state, log.action, log.next_state, rewards)
    )
    rows = Transitions(state, action, next_state, reward, environment, torch.from_numpy(step.astype(np.int64)))
    return rows.select(torch.from_numpy(order))


def _pieces(log: Log, environment: np.ndarray) -> np.ndarray:
    """A number for each row ``[n]``, which increases where a row does not continue the previous one."""
    follows = (log.state[1:].astype(np.float32) == log.next_state[:-1].astype(np.float32)).all(1)
    return np.cumsum(np.concatenate([[True], ~(follows & (environment[1:] == environment[:-1]))]))


def _counted(pieces: np.ndarray) -> np.ndarray:
    """0, 1, 2 ... within each run of equal values, ``[n]``."""
    starts = np.flatnonzero(np.concatenate([[True], pieces[1:] != pieces[:-1]]))
    return np.arange(len(pieces)) - np.repeat(starts, np.diff([*starts, len(pieces)]))


def read_npz(file: Path) -> Log:
    """One ``.npz``: state, action, next_state, and optionally reward, step, episode and columns to group by.

    Raises:
        UserError: if an array is missing, not of numbers, of a wrong shape or length, or not finite.
    """
    try:
        require_file(file)
        with file.open("rb") as content:  # is_zipfile would report an unreadable file as another kind
            if not is_zipfile(content):
                raise UserError(
                    f"{file} is not an .npz file: save one by numpy.savez(file, state=..., action=..., ...); "
                    "export --npz writes a run as one"
                )
        arrays = read_arrays(file)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} cannot be read: {fault}") from None
    missing = [name for name in ("state", "action", "next_state") if name not in arrays]
    if missing:
        raise UserError(f"{file} has no array {', '.join(missing)}: it has {', '.join(arrays) or 'nothing'}")
    numbers: dict[str, Any] = {
        name: _numbers(file, name, arrays[name], axes)
        for name, axes in (("state", 2), ("action", 2), ("next_state", 2), ("reward", 1))
        if name in arrays
    }
    rows = len(arrays["state"])
    refuse_other_lengths(str(file), rows, {name: arrays[name] for name in RESERVED if name in arrays})
    if arrays["state"].shape != arrays["next_state"].shape:
        shapes = list(arrays["state"].shape), list(arrays["next_state"].shape)
        raise UserError(f"{file}: state and next_state have the shapes {shapes[0]} and {shapes[1]}")
    steps = arrays.get("step")
    if steps is not None and (steps.ndim != 1 or steps.dtype.kind not in "iu"):
        raise UserError(f"{file}: step must be whole numbers [N], not {steps.dtype} {list(steps.shape)}")
    if steps is not None and not 0 <= int(steps.min()) <= int(steps.max()) < 2**31:
        raise UserError(f"{file}: steps must count from 0, not from {steps.min()} to {steps.max()}")
    columns = {
        name: array
        for name, array in arrays.items()
        if name not in RESERVED and array.shape == (rows,) and array.dtype.kind in "iufbU"
    }
    episode = arrays.get("episode")
    if episode is not None and (episode.ndim != 1 or episode.dtype.kind not in "iufbUS"):
        raise UserError(f"{file}: episode must be numbers or names [N], not {episode.dtype} {list(episode.shape)}")
    return Log(
        str(file), numbers["state"], numbers["action"], numbers["next_state"], numbers.get("reward"), steps, episode,
        columns,
    )  # fmt: skip


def refuse_other_lengths(where: str, rows: int, arrays: dict[str, np.ndarray]) -> None:
    """Raises :class:`UserError` unless every array has a value for each row, and there are rows."""
    other = [f"{name} {len(array)}" for name, array in arrays.items() if array.ndim and len(array) != rows]
    if other:
        raise UserError(f"{where}: the arrays have different lengths: state {rows}, {', '.join(other)}")
    if not rows:
        raise UserError(f"{where} holds no transitions")


def _numbers(file: Path, name: str, array: np.ndarray, axes: int) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise UserError(f"{file}: {name} must be numbers, not {array.dtype}")
    if array.ndim != axes or 0 in array.shape[1:]:
        wanted = "[N]" if axes == 1 else "[N, size], with size 1 for a single number"
        raise UserError(f"{file}: {name} has the shape {list(array.shape)}, and must be {wanted}")
    refuse_not_finite(str(file), name, array)
    return array.astype(np.float64)


def refuse_not_finite(where: str, name: str, array: np.ndarray) -> None:
    """Raises :class:`UserError` naming row and column of the first value that is NaN or infinite as a float32."""
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(array.astype(np.float32)))
    if len(bad):
        column = f", column {bad[0][1]}" if array.ndim == 2 else ""
        count = len(np.unique(bad[:, 0]))
        value = array[tuple(bad[0])]
        raise UserError(
            f"{where}: {name} is {value} in row {bad[0][0]}{column} ({count} of {len(array)} rows are not finite)"
        )


def refuse_other_sizes(logs: Sequence[Log]) -> None:
    """Raises :class:`UserError` where states or actions of two logs have different sizes."""
    for log in logs[1:]:
        for name in ("state", "action"):
            sizes = getattr(logs[0], name).shape[1], getattr(log, name).shape[1]
            if sizes[0] != sizes[1]:
                raise UserError(f"{log.name} has {sizes[1]} {name} entries, and {logs[0].name} {sizes[0]}")
