"""The one loop in which agents act and beliefs follow: training, adaptation, evaluation and tracking all run it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Context, Schedule
from pyro_dynamics.rollouts.rollout import OnFault, Seconds, Step, rollout, uniform_policy
from pyro_dynamics.rollouts.stream_state import ResumePoint


class Stopwatch:
    """Measures a ``with`` block; ``seconds`` is what the last one took."""

    seconds = Seconds()

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds = Seconds(time.perf_counter() - self._start[0], time.process_time() - self._start[1])


@dataclass(frozen=True)
class Acting:
    """In what training, adaptation, evaluation and tracking differ.

    Attributes:
        environment: which environment of the group each simulated one is, ``[B]``; 0, 1, ... by default.
        believed: with the belief about which environment each plans, ``[B]``; the same by default.
        random: act at random, without planning (line 1 of Algorithm 1).
        updates: whether the beliefs follow each step (Eq. 5).
        before_step: called with the index of each step before its action is planned, see :class:`ContextChange`.
        before_update: called with each step before the beliefs have seen it.
        on_fault: called for each environment that breaks, which then leaves the episode; without it the first fault
            is raised.
        resume_point: the episode's first steps, made before: their actions are sent again, without planning or
            updating, and the steps after them are given.
    """

    environment: Tensor | None = None
    believed: Tensor | None = None
    random: bool = False
    updates: bool = True
    before_step: Callable[[int], object] | None = None
    before_update: Callable[[Step], object] | None = None
    on_fault: OnFault | None = None
    resume_point: ResumePoint | None = None


def act_and_update(
    group: AgentGroup, envs: VectorEnv, seeds: Sequence[int], draws: torch.Generator, acting: Acting
) -> Iterator[Step]:
    """One episode in every environment: plan, act, and let the beliefs follow (Algorithm 1, Eq. 5).

    Args:
        group: the agents. Their last plans are forgotten first, but where an episode is resumed: then they are as they
            were after its first steps.
        envs: B environments in lockstep.
        seeds: for the reset of each environment.
        draws: source of the plans' and of the updates' randomness.
        acting: what is particular here.

    Raises:
        EnvironmentFault: of the first environment that breaks, where there is no ``on_fault``.
        UserError: if a resumed episode does not come to the same states again.
    """
    environment = torch.arange(envs.num_envs) if acting.environment is None else acting.environment
    believed = environment if acting.believed is None else acting.believed
    resume_point = acting.resume_point
    made, steps, planning = len(resume_point or ()), count(), Stopwatch()
    space: Any = envs.single_action_space
    by_chance = uniform_policy(space, envs.num_envs, draws)

    def policy(state: Tensor) -> Tensor:
        index = next(steps)
        if resume_point is not None and index < made:
            return resume_point.again(index, state)
        if acting.before_step is not None:
            acting.before_step(index)
        with planning:
            return by_chance(state) if acting.random else group.act(state, believed, draws)

    if resume_point is None:
        group.reset()
    acted = islice(rollout(envs, policy, seeds, acting.on_fault), made, None)
    planned = (replace(step, plan=planning.seconds) for step in acted)
    yield from update_beliefs(group, planned, environment, draws, acting) if acting.updates else planned


def update_beliefs(
    group: AgentGroup, steps: Iterable[Step], environment: Tensor, draws: torch.Generator, acting: Acting
) -> Iterator[Step]:
    """Let the beliefs about environments ``[B]`` learn from each step, acted or logged, in which they are alive."""
    updating = Stopwatch()
    for step in steps:
        if acting.before_update is not None:
            acting.before_update(step)
        keep = step.alive
        with updating:
            group.observe(step.state[keep], step.action[keep], step.next_state[keep], environment[keep], draws)
        yield replace(step, update=updating.seconds)


class ContextChange:
    """For ``before_step``: gives the group the true context of every environment at every step, as an oracle needs it.

    Args:
        group: the agents; those that infer ignore the contexts.
        schedules: the true context of each environment by step.
        reset: whether all beliefs return to the prior when a context changes, as those of the oracle-reset baseline.
    """

    def __init__(self, group: AgentGroup, schedules: Sequence[Schedule], reset: bool = False) -> None:
        self.group, self.schedules, self.reset = group, schedules, reset
        self._last: list[Context] | None = None

    def __call__(self, step: int) -> None:
        contexts = [schedule.at(step) for schedule in self.schedules]
        if self.reset and self._last not in (None, contexts):
            self.group.reset_beliefs()
        self._last = contexts
        self.group.set_context(contexts)
