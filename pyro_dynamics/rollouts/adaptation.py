"""Meeting environments that were never trained on, with theta fixed and beliefs updated after every step."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import Team
from pyro_dynamics.environments import Context, Schedule
from pyro_dynamics.rollouts.rollout import OnFault, Step, interact
from pyro_dynamics.rollouts.stream_state import Begun, Memory
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
    team: Team,
    robots: VectorEnv,
    seed: int,
    episode: int = 0,
    before_step: Callable[[int], None] | None = None,
    belief_draws: int = 0,
    on_fault: OnFault | None = None,
    memory: Memory | None = None,
    begun: Begun | None = None,
) -> Iterator[AdaptationStep]:
    """One episode in every environment; beliefs begin where the team's guides stand and are updated by Eq. 5.

    Args:
        team: agents with one environment for each robot.
        robots: K environments in lockstep.
        seed: names the random streams.
        episode: a further name, for repeated episodes.
        before_step: called with the index of each step before its action is planned; an experiment tells an agent of
            a switch by it, or an oracle of everything (:func:`telling`).
        belief_draws: how many draws of the belief are told after each step.
        on_fault: told of each robot whose environment breaks, which then leaves the episode; without, the first fault
            is raised as an :class:`~pyro_dynamics.errors.EnvironmentFault`.
        memory: of this team, seed and episode; whoever holds it can keep what it is after a step.
        begun: the episode's first steps, made before: their actions are sent again, without planning, until the robots
            are where they were, and the steps after them are given.

    Raises:
        UserError: if the robots do not come to the same states again.
    """
    environment = torch.arange(robots.num_envs)
    memory = memory or Memory(team, seed, episode)
    seeds = [derive_seed(seed, "adapt", episode, "reset", k) for k in range(robots.num_envs)]
    steps, planning = count(), Stopwatch()

    def policy(state: Tensor) -> Tensor:
        index = next(steps)
        if begun is not None and index < len(begun):
            return begun.again(index, state)
        if before_step is not None:
            before_step(index)
        with planning:
            return team.act(state, environment, memory.draws)

    team.reset()
    memory.go_on(begun)
    steps_made = islice(interact(robots, policy, seeds, on_fault), len(begun or ()), None)
    for step in _follow(team, steps_made, memory, belief_draws):
        yield replace(step, seconds=step.seconds + planning.seconds)


def telling(team: Team, schedules: Sequence[Schedule]) -> Callable[[int], None]:
    """For ``before_step``: tells the team the true context of every robot at every step, as an oracle needs it."""
    return lambda step: team.tell([schedule.at(step) for schedule in schedules])


class Stopwatch:
    """Tells how long the last ``with`` block took."""

    seconds = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._begun


def replay(
    team: Team,
    stream: Transitions,
    contexts: Sequence[Context | None],
    seed: int,
    belief_draws: int = 0,
    memory: Memory | None = None,
    begun: Begun | None = None,
) -> Iterator[AdaptationStep]:
    """The same along steps that were logged in one environment, without acting.

    Args:
        team: agents with one environment.
        stream: T transitions, in the order in which they happened; several episodes are one stream.
        contexts: the true hidden parameter at each step, None where it is not known.
        seed: names the random streams.
        belief_draws: how many draws of the belief are told after each step.
        memory: of this team and seed, as in :func:`adapt`.
        begun: the first steps, followed before.

    Raises:
        UserError: if the first steps of the log are others than those.
    """
    memory = memory or Memory(team, seed, acting=False)
    memory.go_on(begun)
    alive = torch.ones(1, dtype=torch.bool)  # also where the log says that its episode ended: the stream goes on

    def steps() -> Iterator[Step]:
        for t, context in enumerate(contexts):
            row = stream.select(torch.tensor([t]))
            if begun is not None and t < len(begun):
                begun.again(t, row.state)
                continue
            team.tell([context])
            yield Step(t, row.state, row.action, row.next_state, row.reward, alive, ~alive, [context])

    yield from _follow(team, steps(), memory, belief_draws)


def _follow(team: Team, steps: Iterable[Step], memory: Memory, belief_draws: int) -> Iterator[AdaptationStep]:
    """Foretell each step, then let the beliefs learn from it."""
    draws, measuring, intervals, updating = memory.draws, memory.measuring, memory.intervals, Stopwatch()
    environment = torch.arange(len(intervals.factor))
    for step in steps:
        happened = (step.state, step.action, step.next_state, environment)
        log_likelihood = team.log_predictive(*happened, draws)
        pit = team.predictive_pit(*happened, measuring, torch.ones_like(intervals.factor))
        inside = intervals.cover(team.predictive_pit(*happened, measuring, intervals.factor))
        keep = step.alive
        if keep.any():
            with updating:
                team.observe(step.state[keep], step.action[keep], step.next_state[keep], environment[keep], draws)
        yield AdaptationStep(
            step.index,
            step.context,
            step.reward,
            step.alive,
            log_likelihood,
            pit,
            inside,
            *team.beliefs(),
            *(step.state, step.action, step.next_state),
            *team.belief_draws(belief_draws, memory.telling),
            updating.seconds,
        )
