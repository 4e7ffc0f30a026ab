"""The one loop: what is called before a step, when the beliefs learn, and how long it took."""

import time
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.environments import Schedule, find_family
from pyro_dynamics.rollouts.acting import Acting, ContextChange, act_and_update
from pyro_dynamics.rollouts.rollout import Step


class Counting:
    """A group that writes down what is asked of it, and takes its time."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def reset(self) -> None:
        self.done.append("reset")

    def act(self, state: Tensor, environment: Tensor, draws: torch.Generator) -> Tensor:
        self.done.append(("act", environment.tolist()))
        time.sleep(0.01)
        return torch.zeros(len(state), 1)

    def observe(
        self, state: Tensor, action: Tensor, next_state: Tensor, environment: Tensor, draws: torch.Generator
    ) -> None:
        self.done.append(("observe", environment.tolist()))
        sum(range(300_000))

    def set_context(self, contexts: list[Any]) -> None:
        self.done.append(("context", contexts))

    def reset_beliefs(self) -> None:
        self.done.append("prior")


def run(group: Any, acting: Acting, steps: int = 2) -> list[Step]:
    envs = find_family("pendulum-gravity").make_vector([2.0, 9.0], steps)
    made = list(act_and_update(group, envs, [0, 1], torch.Generator().manual_seed(0), acting))
    envs.close()
    return made


def test_the_order_of_a_step_and_its_seconds() -> None:
    group = Counting()
    acting = Acting(
        environment=torch.tensor([5, 6]),
        believed=torch.tensor([6, 5]),
        before_step=lambda index: group.done.append(index),
        before_update=lambda step: group.done.append(("predict", step.index)),
    )
    first, second = run(group, acting)
    one = lambda index: [index, ("act", [6, 5]), ("predict", index), ("observe", [5, 6])]  # noqa: E731
    assert group.done == ["reset", *one(0), *one(1)]
    for step in (first, second):
        assert step.plan.wall >= 0.01 > step.plan.cpu  # it slept
        assert step.update.cpu > 0.0005
        assert list(step.context) == [2.0, 9.0]


def test_beliefs_stay_where_they_shall_not_learn_and_random_actions_are_not_planned() -> None:
    group = Counting()
    steps = run(group, Acting(random=True, updates=False))
    assert group.done == ["reset"]
    assert not torch.equal(steps[0].action, steps[1].action)
    assert all(step.update.wall == 0 for step in steps)


@pytest.mark.parametrize("reset", [True, False])
def test_a_change_of_context_resets_the_beliefs_of_the_oracle_reset_baseline_alone(reset: bool) -> None:
    group = Counting()
    change = ContextChange(group, [Schedule(((0, 2.0), (2, 9.0)))], reset)  # type: ignore[arg-type]
    for step in (0, 1, 2, 3, 0):  # a new episode begins with the first context again
        change(step)
    given = [("context", [context]) for context in (2.0, 2.0, 9.0, 9.0, 2.0)]
    assert group.done == ([*given[:2], "prior", *given[2:4], "prior", given[4]] if reset else given)
