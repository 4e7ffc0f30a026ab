"""Logged transitions, and how they are grouped into environments."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.datasets.columns import require_groupable
from pyro_dynamics.datasets.held_values import held_values
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.ordered_rows import transitions_of
from pyro_dynamics.datasets.other_units import other_units
from pyro_dynamics.datasets.shifted_actions import shifted_actions
from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import exact, label
from pyro_dynamics.environments.contexts import one_but_for_rounding
from pyro_dynamics.errors import UserError
from pyro_dynamics.transitions import Transitions
from pyro_dynamics.unusual_numbers import (
    coarse_actions,
    identifying,
    lost_digits,
    repeated,
    revealing,
    shared,
)

ENVIRONMENT = "environment"
"""The default column that identifies environments."""


@dataclass(frozen=True)
class LoggedData:
    """Logged transitions of K environments.

    Attributes:
        transitions: N of them, whose ``environment`` counts from 0; their rewards are 0 where none were logged.
        episode: to which episode each belongs, ``[N]``: as the log says, or else as rows continue one another.
        episodic: whether the log names its episodes.
        labels: what each environment is called: numbers where the column held quantities, else names.
        column: what they were grouped by.
        rewarded: whether there were rewards.
        bounds: lower and upper bounds of the actions, each ``[A]``; the observed extremes where they are unknown.
        notes: what was done to the rows when they were read, for people; a sentence each.
    """

    transitions: Transitions
    episode: Tensor
    episodic: bool
    labels: tuple[Context, ...]
    column: str
    rewarded: bool
    bounds: tuple[np.ndarray, np.ndarray]
    notes: tuple[str, ...] = ()

    def of(self, name: str) -> "LoggedData":
        """The environment of that name alone; a quantity may be written in another way, such as 6.0 for 6.

        Raises:
            UserError: if there is none, naming those that there are.
        """
        names = [label(one) for one in self.labels]
        known = {exact(one): k for k, one in enumerate(self.labels)} | {name: k for k, name in enumerate(names)}
        k = known.get(name, known.get(_rewritten(name)))
        if k is None:
            raise UserError(f"there is no environment {name!r} in the data: it has {', '.join(names)}")
        own = self.episode[self.transitions.environment == k]
        return replace(self, transitions=self.transitions.of([k]), episode=own, labels=(self.labels[k],))


def _rewritten(name: str) -> str:
    """Quantities as :func:`exact` writes them; other names as they are."""
    try:
        return exact([float(part) for part in name.split(",")])
    except ValueError:
        return name


def group_logs(logs: Sequence[Log], group: str | None, one_alone: bool = False) -> LoggedData:
    """All logs as one, grouped into environments.

    Args:
        logs: at least one.
        group: the column to group by, or several of quantities, written mass,damping. Without it that is
            ``environment`` where the logs have it; else several logs are an environment each.
        one_alone: whether a single log without such a column may be an environment too.

    Raises:
        UserError: if the logs do not go together, or there is no such column in one of them.
    """
    refuse_other_sizes(logs)
    if group is not None:
        group = ",".join(grouping_names(logs[0].columns, group))
    having = [log.name for log in logs if ENVIRONMENT in log.columns]
    if group is None and having:
        for log in logs:
            if ENVIRONMENT not in log.columns:
                raise UserError(
                    f"{having[0]} has a column {ENVIRONMENT}, and {log.name} has none: add it there, or rename it "
                    "where it is: then each source is an environment"
                )
        group = ENVIRONMENT
    if group is not None or (len(logs) == 1 and not one_alone):
        columns = [_column(log, group) for log in logs]
        refuse_other_kinds(logs, columns, group or ENVIRONMENT)
    else:
        columns = [np.full(len(log), name) for log, name in zip(logs, _short_names(logs), strict=True)]
    labels, index = _labels(np.concatenate(columns))
    rewarded = all(log.reward is not None for log in logs)
    environments = np.split(index, np.cumsum([len(log) for log in logs])[:-1])
    parts = [transitions_of(log, own, rewarded) for log, own in zip(logs, environments, strict=True)]
    counts = np.cumsum([0, *(int(episode.max()) + 1 for _, episode in parts)])
    data = Transitions.concatenate([rows for rows, _ in parts])
    episode = torch.cat([episode + int(count) for (_, episode), count in zip(parts, counts, strict=False)])
    low = np.min([log.action.min(0) if log.bounds is None else log.bounds[0] for log in logs], axis=0)
    high = np.max([log.action.max(0) if log.bounds is None else log.bounds[1] for log in logs], axis=0)
    notes = [note for log in logs for note in log.notes]
    for log in logs:  # before they are rounded to float32
        lost = lost_digits(log.state, log.next_state), coarse_actions(log.action)
        notes += [f"{log.name}: {words}" for words in lost if words]
    if not rewarded and (some := [log.name for log in logs if log.reward is not None]):
        others = ", ".join(log.name for log in logs if log.reward is None)
        notes.append(f"rewards are in {', '.join(some)}, and not in {others}: none are used")
    rows = data.state.numpy(), data.action.numpy(), data.next_state.numpy()
    blocks = _blocks(logs, data, labels)
    twice = repeated(*rows, data.environment.numpy()), *(shared(*rows, block) for block in blocks)
    states = {what: data.state.numpy()[own] for block in blocks for what, own in block.items()}
    held = held_values(rows[0], rows[2], episode.numpy())
    shifted = shifted_actions(*rows, data.environment.numpy(), episode.numpy())
    said = *twice, other_units(states), _revealed(data, episode, labels, group or ""), shifted, held
    notes += [words for words in said if words]
    episodic = all(log.episode is not None for log in logs)
    return LoggedData(data, episode, episodic, labels, group or "data set", rewarded, (low, high), tuple(notes))


def _revealed(data: Transitions, episode: Tensor, labels: Sequence[Context], group: str) -> str:
    """A note where the state says what environments are grouped by."""
    state, environment, words = data.state.double().numpy(), data.environment.numpy(), ""
    if not any(isinstance(one, str) for one in labels):
        hidden = np.array(labels, np.float64).reshape(len(labels), -1)
        names = [group] if hidden.shape[1] == 1 else group.split(",")
        words = revealing(state, hidden[environment], names)
    return words or identifying(state, environment, episode.numpy())


def _blocks(logs: Sequence[Log], data: Transitions, labels: Sequence[Context]) -> list[dict[str, np.ndarray]]:
    """The rows of each environment, and of each of several logs, by what they are called."""
    order = data.environment.argsort(stable=True)  # once, however many there are
    counts = data.environment.bincount(minlength=len(labels)).tolist()
    parts = (part.numpy() for part in order.split(counts))
    names = [label(one) for one in labels]
    names = names if len(set(names)) == len(names) else list(map(str, labels))
    environments = {f"environment {name}": part for name, part in zip(names, parts, strict=True)}
    ends = np.cumsum([len(log) for log in logs])
    files = {log.name: np.arange(end - len(log), end) for log, end in zip(logs, ends, strict=True)}
    same = len(files) == len(environments) and all(map(np.array_equal, files.values(), environments.values()))
    return [environments] if len(logs) == 1 or same else [environments, files]


def grouping_names(columns: Collection[str], group: str | None) -> list[str]:
    """The names of the columns to group by: one, or several with commas between them.

    Raises:
        UserError: if there is no name among commas and spaces.
    """
    group = ENVIRONMENT if group is None else group
    if group in columns:
        return [group]
    names = list(dict.fromkeys(name.strip() for name in group.split(",") if name.strip()))
    if not names:
        raise UserError(f"the column to group by is {group!r}, which is no name: name one, or leave it out")
    return names


def _column(log: Log, group: str | None) -> np.ndarray:
    """What each row of a log is grouped by, ``[n]``; ``[n, P]`` for P columns of quantities."""
    several = grouping_names(log.columns, group)
    if len(several) > 1:
        parts = [_column(log, part) for part in several]
        names = [name for name, part in zip(several, parts, strict=True) if part.dtype.kind != "f"]
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
    require_groupable(log.name, group, values, len(log))
    return values + 0.0 if values.dtype.kind == "f" else values  # which turns -0 into 0


def _short_names(logs: Sequence[Log]) -> list[str]:
    """The last part of each name, where these differ."""
    short = [Path(log.name).stem for log in logs]
    names = short if len(set(short)) == len(short) else [log.name for log in logs]
    if len(set(names)) < len(names):
        raise UserError(f"the same data is given more than once: {', '.join(names)}")
    return names


def _labels(values: np.ndarray) -> tuple[tuple[Context, ...], np.ndarray]:
    """Labels in order, and which of them each row has: quantities are floats; whole numbers and text are names."""
    if values.dtype.kind == "f":
        values = np.apply_along_axis(_as_one, 0, values)
    unique, index = np.unique(values, return_inverse=True, axis=0)
    if values.ndim == 2:
        return tuple(tuple(map(float, row)) for row in unique), index.reshape(-1)
    if values.dtype.kind == "f":
        return tuple(float(value) for value in unique), index
    return tuple(str(value) for value in unique.tolist()), index


def _as_one(values: np.ndarray) -> np.ndarray:
    """Quantities ``[N]``, where those that are the same but for rounding are the shortest: 0.3 for 0.1 + 0.2."""
    unique, index = np.unique(values, return_inverse=True)
    groups: list[list[float]] = []
    for value in unique.tolist():
        if groups and one_but_for_rounding(groups[-1][0], value):
            groups[-1].append(value)
        else:
            groups.append([value])
    shortest = [min(group, key=lambda one: len(repr(one))) for group in groups for _ in group]
    return np.array(shortest)[index]


def refuse_other_kinds(logs: Sequence[Log], columns: Sequence[np.ndarray], group: str) -> None:
    """Raises :class:`UserError` where a group is quantities in one log and names in another."""
    kinds = [column.dtype.kind for column in columns]
    if "f" in kinds and {"U", "b"} & set(kinds):  # whole numbers go with either
        numbers, names = kinds.index("f"), next(place for place, kind in enumerate(kinds) if kind in "Ub")
        raise UserError(
            f"{group} is a number in {logs[numbers].name}, such as {columns[numbers][0]}, and text in "
            f"{logs[names].name}, such as {str(columns[names][0])!r}: write the same in both"
        )


def refuse_other_sizes(logs: Sequence[Log]) -> None:
    """Raises :class:`UserError` where states or actions of two logs have different sizes."""
    for log in logs[1:]:
        for name in ("state", "action"):
            sizes = getattr(logs[0], name).shape[1], getattr(log, name).shape[1]
            if sizes[0] != sizes[1]:
                raise UserError(f"{log.name} has {sizes[1]} {name} entries, and {logs[0].name} {sizes[0]}")
