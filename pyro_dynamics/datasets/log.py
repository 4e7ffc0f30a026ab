"""What one file or data set of logged transitions holds."""

from dataclasses import dataclass, field, replace

import numpy as np


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
        notes: what was done to the rows, for people; a sentence each.
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
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.state)

    def select(self, rows: np.ndarray, note: str) -> "Log":
        """Some of the rows, and why: a further note."""
        return replace(
            self,
            state=self.state[rows],
            action=self.action[rows],
            next_state=self.next_state[rows],
            reward=None if self.reward is None else self.reward[rows],
            step=None if self.step is None else self.step[rows],
            episode=None if self.episode is None else self.episode[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            notes=(*self.notes, note),
        )
