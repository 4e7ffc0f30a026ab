"""Reward and termination of a task that was edited since they were recorded."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_dynamics.data_files import structure
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.rollouts.task_record import TaskRecord
from pyro_dynamics.tasks import BoxTask
from pyro_dynamics.tasks.functions import Function


class Cart(gymnasium.Env):
    """For its spaces."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))


def steps() -> list[Step]:
    """Eight of two carts, near the middle."""
    drawn = torch.Generator().manual_seed(0)
    states = 0.1 * torch.randn(9, 2, 2, generator=drawn)
    actions = torch.rand(8, 2, 1, generator=drawn)
    no, all_ = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    pairs = zip(states[:-1], actions, states[1:], strict=True)
    return [
        Step(i, state, action, after, torch.zeros(2), all_, no, ()) for i, (state, action, after) in enumerate(pairs)
    ]


def near(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    return -next_state[..., 0].abs()


def beyond(limit: float) -> Function:
    return lambda state, action, next_state: next_state[..., 0].abs() > limit


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ((near,), (lambda s, a, n: -near(s, a, n),), "reward"),
        ((near,), (lambda s, a, n: near(s, a, n) - 1e-3 * a[..., 0].square(),), "reward"),
        ((near,), (lambda s, a, n: near(s, a, n) + (n[..., 0].abs() < 0.01).float(),), "reward"),  # a bonus at the goal
        ((near,), (lambda s, a, n: -s[..., 0].abs(),), "reward"),
        ((near, beyond(0.8)), (near, beyond(0.6)), "termination"),
        ((near, beyond(0.8)), (near,), "termination"),
        ((near,), (near, beyond(1.0)), "termination"),
        ((near, beyond(0.8)), (near, lambda s, a, n: ~beyond(0.8)(s, a, n)), "termination"),
    ],
)
def test_what_was_edited_is_named(before: tuple[Any, ...], now: tuple[Any, ...], words: str) -> None:
    kept = TaskRecord.of(BoxTask(Cart(), *before), steps())
    assert kept is not None
    read = structure(asdict(kept), TaskRecord)
    assert read.differences(BoxTask(Cart(), *before), steps()) == []
    (line,) = read.differences(BoxTask(Cart(), *now), steps())
    assert line.startswith(f"the task's {words} is not the one of the training: a step to the state ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "other",
    [
        lambda s, a, n: -n[..., :1].norm(dim=-1),
        lambda s, a, n: -n[..., 0].square().sqrt(),
        lambda s, a, n: near(s, a, n) * (1 + 1e-6),  # as another processor rounds
    ],
)
def test_the_same_written_otherwise_is_the_same(other: Function) -> None:
    kept = TaskRecord.of(BoxTask(Cart(), near), steps())
    assert kept is not None
    assert kept.differences(BoxTask(Cart(), other), steps()) == []


def infinite(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    return (next_state[..., 0] - 0.05).log()


def appended(state: Tensor) -> Tensor:
    return torch.cat([state, state[:, :1]], 1)


def raises(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    if next_state.abs().max() > 1:
        raise ValueError("out of the room")
    return near(state, action, next_state)


@pytest.mark.parametrize(("function", "known"), [(infinite, True), (raises, False), ("learned", True)])
def test_functions_of_all_kinds_can_be_recorded(function: Function | Callable[..., Tensor], known: bool) -> None:
    task = BoxTask(Cart(), function)
    made = steps()
    if function == "learned":  # appends the reward to each state
        made = [replace(step, state=appended(step.state), next_state=appended(step.next_state)) for step in made]
    kept = TaskRecord.of(task, made)
    assert (kept is not None) == known
    if kept is not None:
        assert structure(asdict(kept), TaskRecord).differences(task, made) == []
