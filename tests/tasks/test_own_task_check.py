"""A task of one's own that is wrong is refused by name, on the first transitions."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import Task
from pyro_dynamics.tasks.functions import evaluate
from pyro_dynamics.tasks.own_task_check import check_own_task


class Sledge(Task):
    """Place and speed; right as it is."""

    state_dim, action_dim, feature_dim, target_dim = 2, 1, 2, 2

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return -next_state[..., 0].abs()


def check(**written: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    state, action, change = (torch.randn(20, size, generator=generator) for size in (2, 1, 2))
    check_own_task(type("Mine", (Sledge,), {"__module__": __name__, **written})(), state, action, state + change)


class Scaled:
    """A fit that leaves no scale."""

    @staticmethod
    def fit(task: Any, state: Tensor, next_state: Tensor) -> None:
        task.scale = torch.zeros(2)

    @staticmethod
    def targets(task: Any, state: Tensor, next_state: Tensor) -> Tensor:
        return (next_state - state) / getattr(task, "scale", torch.ones(2))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"feature_dim": 3}, "features() of Mine gives the shape [2, 3, 2], not [2, 3, 3]"),
        ({"features": lambda task, state: state[..., 0]}, "features() of Mine gives the shape [2, 3], not [2, 3, 2]"),
        ({"features": lambda task, state: state.numpy()}, "features() of Mine gives a ndarray"),
        ({"features": lambda task, state: state.double()}, "features() of Mine gives a torch.float64"),
        ({"features": lambda task, state: state.nothing}, "raised AttributeError"),
        ({"features": lambda task, state: state * torch.nn.Parameter(torch.ones(2))}, "end it with .detach()"),
        ({"features": lambda task, state: state.mul_(2)}, "changes the states that it is given"),
        ({"target_dim": 1}, "targets() of Mine gives the shape [2, 3, 2], not [2, 3, 1]"),
        ({"targets": lambda task, state, after: (after - state).log()}, "targets() of Mine is not finite"),
        ({"targets": lambda task, state, after: after}, "must be the inverse of its targets()"),
        ({"next_state": lambda task, state, target: state + 2 * target}, "must be the inverse of its targets()"),
        ({"next_state": lambda task, state, target: None}, "next_state() of Mine gives a NoneType"),
        ({"fit": lambda task, state: None}, "raised TypeError"),
        ({"fit": Scaled.fit, "targets": Scaled.targets}, "targets() of Mine, once fitted, is not finite"),
        ({"state_dict": lambda task: {"scale": 3}}, "must give tensors by name"),
        ({"state_names": ("place",)}, "state_names must be a tuple of 2 names"),
        ({"target_names": "ab"}, "target_names must be a tuple of 2 names"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        check(**written)
    assert words in str(refused.value)


def test_what_is_right_is_taken() -> None:
    check()
    check(
        state_names=("place (m)", "speed (m/s)"),
        targets=lambda task, state, after: 3 * (after - state),
        next_state=lambda task, state, target: state + target / 3,
    )


def test_a_reward_that_writes_over_its_arguments_is_refused() -> None:
    rows = torch.randn(4, 2), torch.randn(4, 1), torch.randn(4, 2)
    with pytest.raises(UserError, match="the reward function changes what it is given"):
        evaluate("reward", lambda state, action, after: after.abs_()[..., 0], *rows)
