"""EvaluationResult environments that were never trained on, with theta fixed and beliefs updated after every step."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Context, Schedule
from pyro_dynamics.rollouts.rollout import OnFault, Step, rollout
from pyro_dynamics.rollouts.stream_state import ResumePoint, StreamState
from pyro_dynamics.seeding import derive_seed
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class AdaptationStep:
    """One step in each of K environments.

    Attributes:
        index: the step within the episode.
        context: the true hidden parameters.
        reward: ``[K]``.
        alive: ``[K]``, false for environments whose episode ended before this step.
        log_likelihood: of what happened, under the belief BEFORE it was seen, in nats, ``[K]``.
        pit: the prediction's CDF at what happened, under the same belief, for each target dimension, ``[K, T]``.
        inside: whether each target lies in its adaptive 90 % interval, ``[K, T]``.
        mean: of the belief after the update, ``[K, d]``.
        scale: its standard deviation, ``[K, d]``.
        state: before the step, ``[K, S]``.
        action: ``[K, A]``.
        next_state: ``[K, S]``.
        draws: n draws of the belief after the update, ``[n, K, d]``.
        log_q: its log density at them, in nats, ``[n, K]``.
        seconds: by the clock, for the plan before and the update after the step.
    """

    index: int
    context: Sequence[Context | None]
    reward: Tensor
    alive: Tensor
    log_likelihood: Tensor
    pit: Tensor
    inside: Tensor
    mean: Tensor
    scale: Tensor
    state: Tensor
    action: Tensor
    next_state: Tensor
    draws: Tensor
    log_q: Tensor
    seconds: float


def adapt(
    group: AgentGroup,
    robots: VectorEnv,
    seed: int,
    episode: int = 0,
    before_step: Callable[[int], None] | None = None,
    belief_draws: int = 0,
    on_fault: OnFault | None = None,
    stream_state: StreamState | None = None,
    resume_point: ResumePoint | None = None,
) -> Iterator[AdaptationStep]:
    """One episode in every environment; beliefs begin where the group's guides stand and are updated by Eq. 5.

    Args:
        group: agents with one environment for each robot.
        robots: K environments in lockstep.
        seed: names the random streams.
        episode: a further name, for repeated episodes.
        before_step: called with the index of each step before its action is planned; an experiment tells an agent of
            a switch by it, or an oracle of everything (:func:`telling`).
        belief_draws: how many draws of the belief are told after each step.
        on_fault: told of each robot whose environment breaks, which then leaves the episode; without, the first fault
            is raised as an :class:`~pyro_dynamics.errors.EnvironmentFault`.
        stream_state: of this group, seed and episode; whoever holds it can keep what it is after a step.
        resume_point: the episode's first steps, made before: their actions are sent again, without planning, until the
            robots are where they were, and the steps after them are given.

    Raises:
        UserError: if the robots do not come to the same states again.
    """
    environment = torch.arange(robots.num_envs)
    stream_state = stream_state or StreamState(group, seed, episode)
    seeds = [derive_seed(seed, "adapt", episode, "reset", k) for k in range(robots.num_envs)]
    steps, planning = count(), Stopwatch()

    def policy(state: Tensor) -> Tensor:
        index = next(steps)
        if resume_point is not None and index < len(resume_point):
            return resume_point.again(index, state)
        if before_step is not None:
            before_step(index)
        with planning:
            return group.act(state, environment, stream_state.draws)

    group.reset()
    stream_state.resume(resume_point)
    steps_made = islice(rollout(robots, policy, seeds, on_fault), len(resume_point or ()), None)
    for step in _follow(group, steps_made, stream_state, belief_draws):
        yield replace(step, seconds=step.seconds + planning.seconds)


def telling(group: AgentGroup, schedules: Sequence[Schedule]) -> Callable[[int], None]:
    """For ``before_step``: tells the group the true context of every robot at every step, as an oracle needs it."""
    return lambda step: group.set_context([schedule.at(step) for schedule in schedules])


class Stopwatch:
    """Tells how long the last ``with`` block took."""

    seconds = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._begun


def replay(
    group: AgentGroup,
    stream: Transitions,
    contexts: Sequence[Context | None],
    seed: int,
    belief_draws: int = 0,
    stream_state: StreamState | None = None,
    resume_point: ResumePoint | None = None,
) -> Iterator[AdaptationStep]:
    """The same along steps that were logged in one environment, without acting.

    Args:
        group: agents with one environment.
        stream: T transitions, in the order in which they happened; several episodes are one stream.
        contexts: the true hidden parameter at each step, None where it is not known.
        seed: names the random streams.
        belief_draws: how many draws of the belief are told after each step.
        stream_state: of this group and seed, as in :func:`adapt`.
        resume_point: the first steps, followed before.

    Raises:
        UserError: if the first steps of the log are others than those.
    """
    stream_state = stream_state or StreamState(group, seed, acting=False)
    stream_state.resume(resume_point)
    alive = torch.ones(1, dtype=torch.bool)  # also where the log says that its episode ended: the stream goes on

    def steps() -> Iterator[Step]:
        for t, context in enumerate(contexts):
            row = stream.select(torch.tensor([t]))
            if resume_point is not None and t < len(resume_point):
                resume_point.again(t, row.state)
                continue
            group.set_context([context])
            yield Step(t, row.state, row.action, row.next_state, row.reward, alive, ~alive, [context])

    yield from _follow(group, steps(), stream_state, belief_draws)


def _follow(
    group: AgentGroup, steps: Iterable[Step], stream_state: StreamState, belief_draws: int
) -> Iterator[AdaptationStep]:
    """Foretell each step, then let the beliefs learn from it."""
    draws, measuring, intervals, updating = (
        stream_state.draws,
        stream_state.measuring,
        stream_state.intervals,
        Stopwatch(),
    )
    environment = torch.arange(len(intervals.factor))
    for step in steps:
        happened = (step.state, step.action, step.next_state, environment)
        log_likelihood = group.log_predictive(*happened, draws)
        pit = group.predictive_pit(*happened, measuring, torch.ones_like(intervals.factor))
        inside = intervals.cover(group.predictive_pit(*happened, measuring, intervals.factor))
        keep = step.alive
        if keep.any():
            with updating:
                group.observe(step.state[keep], step.action[keep], step.next_state[keep], environment[keep], draws)
        yield AdaptationStep(
            step.index,
            step.context,
            step.reward,
            step.alive,
            log_likelihood,
            pit,
            inside,
            *group.beliefs(),
            *(step.state, step.action, step.next_state),
            *group.belief_draws(belief_draws, stream_state.telling),
            updating.seconds,
        )
