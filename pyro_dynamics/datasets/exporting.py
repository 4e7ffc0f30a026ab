"""A run's transitions for other tools: as one npz, as CSV, or as episodes for Minari."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from gymnasium.spaces import Box

from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_whole
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class RunData:
    """All transitions of a run.

    Attributes:
        transitions: N of them.
        round: the round of each, ``[N]``.
        episode: to which episode each belongs, ``[N]``, counted over all rounds and environments.
        family: the environments.
    """

    transitions: Transitions
    round: np.ndarray
    episode: np.ndarray
    family: Family

    @classmethod
    def of(cls, rounds: Sequence[Transitions], family: Family) -> "RunData":
        """The transitions of each round, with their episodes counted.

        Raises:
            UserError: if there are none.
        """
        if not rounds:
            raise UserError("the run holds no whole round yet: there is nothing to export")
        episode = np.zeros(sum(map(len, rounds)), dtype=np.int64)
        start = count = 0
        for data in rounds:
            for rows in data.episodes():
                episode[start + rows.numpy()] = count
                count += 1
            start += len(data)
        numbers = np.repeat(np.arange(len(rounds)), [len(data) for data in rounds])
        return cls(Transitions.concatenate(rounds), numbers, episode, family)

    def context(self, k: int) -> tuple[Any, ...]:
        """The value of each hidden parameter in environment k."""
        context = self.family.train[k]
        return context if isinstance(context, tuple) else (context,)

    def terminated(self) -> np.ndarray:
        """Whether each transition ended its episode by the task's rule, ``[N]``; other last ones were truncated."""
        task, data = self.family.make_task(), self.transitions
        ended = task.terminated(data.state, data.action, data.next_state).numpy()
        return ended & self._last()

    def _last(self) -> np.ndarray:
        last = np.zeros(len(self.episode), dtype=bool)
        last[list({episode: row for row, episode in enumerate(self.episode.tolist())}.values())] = True
        return last

    def columns(self) -> dict[str, np.ndarray]:
        """Everything by name, as `fit` reads it: ``Transitions`` with round, episode, terminated and parameters."""
        environment = self.transitions.environment.numpy()
        found = self.transitions.arrays() | {"round": self.round, "episode": self.episode}
        found["terminated"] = self.terminated()
        contexts = [self.context(k) for k in range(len(self.family.train))]
        for name, values in zip(self.family.parameters, zip(*contexts, strict=True), strict=True):
            found[name if name not in found else f"hidden_{name}"] = np.array(values)[environment]
        return found

    def episodes(self, observations: Box, actions: Box) -> list[dict[str, Any]]:
        """Each episode in Minari's form, for :func:`~pyro_dynamics.datasets.minari_data.write_minari`."""
        terminated = self.terminated()
        order = np.argsort(self.episode, kind="stable")
        starts = np.flatnonzero(np.diff(self.episode[order], prepend=-1))
        return [
            self._episode(rows, bool(terminated[rows[-1]]), observations, actions)
            for rows in np.split(order, starts[1:])
        ]

    def _episode(self, rows: np.ndarray, terminated: bool, observations: Box, actions: Box) -> dict[str, Any]:
        data = self.transitions.select(torch.from_numpy(rows))
        last = np.arange(len(rows)) == len(rows) - 1
        k = int(data.environment[0])
        named = dict(zip(self.family.parameters, self.context(k), strict=True))
        states = torch.cat([data.state, data.next_state[-1:]]).numpy()
        return {
            "observations": states.astype(observations.dtype),
            "actions": data.action.numpy().astype(actions.dtype),
            "rewards": data.reward.double().numpy(),
            "terminations": last & terminated,
            "truncations": last & (not terminated),
            "infos": {name: [value] * (len(rows) + 1) for name, value in named.items()},
            "metadata": {**named, "environment": k, "round": int(self.round[rows[0]])},
        }


def write_npz(path: Path, data: RunData) -> None:
    """One ``.npz`` with every column."""
    arrays: dict[str, Any] = data.columns()
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def write_csv(path: Path, data: RunData) -> None:
    """One line for each transition; vectors are spread over columns such as ``state_0``."""
    columns = data.columns()
    names = [name for name in columns if columns[name].ndim == 1]
    vectors = ("state", "action", "next_state")
    spread = [f"{name}_{i}" for name in vectors for i in range(columns[name].shape[1])]

    def fill(file: BinaryIO) -> None:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow([*names, *spread])
        for row in range(len(data.episode)):
            vector = [value for name in vectors for value in columns[name][row]]
            writer.writerow([str(value) for value in (*(columns[name][row] for name in names), *vector)])
        text.flush()
        text.detach()

    write_whole(path, fill)
