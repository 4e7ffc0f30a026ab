"""What a task gave for the first steps of a run, kept beside it: whether reward and termination are still the same."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_dynamics.data_files import Finite
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.tasks import Task

SCALES = torch.cat([torch.ones(1), torch.logspace(-1, 1, 21)])
"""The first steps hardly reach what ends an episode: the same are judged with states so many times as large, too."""


@dataclass(frozen=True)
class TaskRecord:
    """What a planner is given of steps by a task that is not fitted yet.

    Attributes:
        reward: of each step under each scale, ``[len(SCALES) T K]``.
        ends: whether the episode ends with it, likewise.
    """

    reward: list[Finite]
    ends: list[bool]

    @classmethod
    def of(cls, task: Task, steps: Sequence[Step]) -> "TaskRecord | None":
        """Of some steps; None where the user's functions do not take all of these states."""
        state, action, next_state = _scaled(steps)
        try:
            reward, ends = task.reward(state, action, next_state), task.terminated(state, action, next_state)
            return cls(reward.flatten().nan_to_num().tolist(), ends.flatten().tolist())
        except Exception:  # whatever a function of the user's raises: of the steps as they are the task check speaks
            return None

    def differences(self, task: Task, steps: Sequence[Step]) -> list[str]:
        """What the task gives otherwise for the same steps now, a line each."""
        now = TaskRecord.of(task, steps)
        if now is None or len(now.reward) != len(self.reward) or len(now.ends) != len(self.ends):
            return []
        was, is_ = torch.tensor([self.reward, now.reward], dtype=torch.float64)
        other = ~torch.isclose(is_, was, rtol=1e-4, atol=1e-6 * float(was.abs().max()))
        ended = torch.tensor(self.ends) != torch.tensor(now.ends)
        to, found = _scaled(steps)[2].flatten(0, -2), []
        if other.any():
            row = int(other.int().argmax())
            found.append(_words("reward", to[row], f"gave {float(was[row]):.4g}", f"gives {float(is_[row]):.4g}"))
        if ended.any():
            row = int(ended.int().argmax())
            words = ("ended no episode", "ends one") if now.ends[row] else ("ended an episode", "ends none")
            found.append(_words("termination", to[row], *words))
        return found


def _scaled(steps: Sequence[Step]) -> tuple[Tensor, Tensor, Tensor]:
    """States, actions and next states under each scale, ``[len(SCALES), T, K, ...]``."""
    state, action, next_state = (
        torch.stack([getattr(step, name) for step in steps]) for name in ("state", "action", "next_state")
    )
    scale = SCALES[:, None, None, None]
    return scale * state, action.expand(len(SCALES), *action.shape), scale * next_state


def _words(what: str, state: Tensor, before: str, now: str) -> str:
    shown = ", ".join(f"{value:.3g}" for value in state[:6].tolist()) + (", ..." if len(state) > 6 else "")
    return (
        f"the task's {what} is not the one of the training: a step to the state {shown} {before}, and {now} now; what "
        "was acted was planned for that one, and plans are for this one from here on: change it back, or train in "
        "another folder, unless you mean it so"
    )
