"""Whether logged rewards are those of a family: they show other units, another order or another meaning."""

from collections.abc import Callable

import torch

from pyro_dynamics.rollouts.task_check import TOLERANCE
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.functions import evaluate
from pyro_dynamics.transitions import Transitions


def other_rewards(rows: Transitions, task: Task, family: str, place: Callable[[int], str]) -> str:
    """A warning if the logged rewards are not those of the family's task; else nothing.

    Args:
        rows: the transitions.
        task: of the family.
        family: its name.
        place: says where a row is, for people.
    """
    if getattr(task, "learns_reward", False):
        return ""
    ours = evaluate("reward", task.reward, rows.state, rows.action, rows.next_state)
    apart = (ours - rows.reward).abs()
    limit = TOLERANCE * float(torch.maximum(ours.abs(), rows.reward.abs()).max())
    if apart.max() <= limit:
        return ""
    shifted = [(ours[1:] - rows.reward[:-1]).abs(), (ours[:-1] - rows.reward[1:]).abs()]
    cause = "state, action or reward has other units, another order or another meaning there"
    for other, one in zip(shifted, ("after", "before"), strict=True):
        if (other <= limit).float().mean() > 0.9:
            cause = f"each is that of the row {one} it: move the column by one row"
    row = int(apart.argmax())
    return (
        f"the logged rewards are not those of the family {family} in {int((apart > limit).sum())} of {len(rows)} rows "
        f"({float(rows.reward[row]):.4g} and {float(ours[row]):.4g} in {place(row)}): {cause}"
    )
