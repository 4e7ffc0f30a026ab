"""Environments that were never trained on, with theta fixed and beliefs updated after every step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Context
from pyro_dynamics.rollouts.acting import Acting, act_and_update, update_beliefs
from pyro_dynamics.rollouts.rollout import OnFault, Seconds, Step
from pyro_dynamics.rollouts.stream_state import ResumePoint, StreamState
from pyro_dynamics.seeding import derive_seed
from pyro_dynamics.transitions import Transitions

BELIEF_DRAWS = 400
"""Draws of the belief after each step from which a verdict is made: the tail of k-hat is then fitted to about 60."""


@dataclass(frozen=True)
class AdaptationStep:
    """One step in each of K environments.

    Attributes:
        index: the step within the episode.
        context: the true hidden parameters.
        reward: ``[K]``.
        alive: ``[K]``, false for environments whose episode ended before this step.
        log_likelihood: of what was observed, under the belief BEFORE it was seen, in nats, ``[K]``.
        pit: the prediction's CDF at what was observed, under the same belief, for each target dimension, ``[K, T]``.
        inside: whether each target lies in its adaptive 90 % interval, ``[K, T]``.
        factor: of the predicted standard deviations in that interval, ``[K, T]``: the width that covers 90 %.
        mean: of the belief after the update, ``[K, d]``.
        scale: its standard deviation, ``[K, d]``.
        state: before the step, ``[K, S]``.
        action: ``[K, A]``.
        next_state: ``[K, S]``.
        draws: n draws of the belief after the update, ``[n, K, d]``.
        log_q: its log density at them, in nats, ``[n, K]``.
        plan: what planning took, before the step; nothing along a log.
        update: what the update of the beliefs took, after it.
        changed: where that update found that the environment has changed, ``[K]``.
        rests_on: how many of the last transitions the belief after it mostly rests on, ``[K]``; None where it finds no
            changes.
    """

    index: int
    context: Sequence[Context | None]
    reward: Tensor
    alive: Tensor
    log_likelihood: Tensor
    pit: Tensor
    inside: Tensor
    factor: Tensor
    mean: Tensor
    scale: Tensor
    state: Tensor
    action: Tensor
    next_state: Tensor
    draws: Tensor
    log_q: Tensor
    plan: Seconds
    update: Seconds
    changed: Tensor
    rests_on: Tensor | None = None

    @property
    def seconds(self) -> float:
        """By the clock, for the plan before and the update after the step."""
        return self.plan.wall + self.update.wall


def adapt(
    group: AgentGroup,
    envs: VectorEnv,
    seed: int,
    episode: int = 0,
    before_step: Callable[[int], object] | None = None,
    belief_draws: int = 0,
    on_fault: OnFault | None = None,
    stream_state: StreamState | None = None,
    resume_point: ResumePoint | None = None,
) -> Iterator[AdaptationStep]:
    """One episode in every environment; beliefs begin where the group's guides stand and are updated by Eq. 5.

    Args:
        group: agents over K environments.
        envs: K environments in lockstep.
        seed: names the random streams.
        episode: a further name, for repeated episodes.
        before_step: called with the index of each step before its action is planned: what gives an oracle the true
            context, see :class:`~pyro_dynamics.rollouts.acting.ContextChange`.
        belief_draws: how many draws of the belief are given after each step.
        on_fault: called for each environment that breaks, which then leaves the episode; without, the first fault is
            raised as an :class:`~pyro_dynamics.errors.EnvironmentFault`.
        stream_state: of this group, seed and episode; whoever holds it can keep what it is after a step.
        resume_point: the episode's first steps, made before: their actions are sent again, without planning, until the
            environments are where they were, and the steps after them are given.

    Raises:
        UserError: if the environments do not come to the same states again.
    """
    stream_state = stream_state or StreamState(group, seed, episode)
    seeds = [derive_seed(seed, "adapt", episode, "reset", k) for k in range(envs.num_envs)]
    stream_state.resume(resume_point)
    predictions = Predictions(group, stream_state)
    acting = Acting(
        before_step=before_step, before_update=predictions.make, on_fault=on_fault, resume_point=resume_point
    )
    steps = act_and_update(group, envs, seeds, stream_state.draws, acting)
    return predictions.beside(steps, belief_draws)


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
        stream: T transitions, in the order in which they were observed; several episodes are one stream.
        contexts: the true hidden parameter at each step, None where it is not known.
        seed: names the random streams.
        belief_draws: how many draws of the belief are given after each step.
        stream_state: of this group and seed, as in :func:`adapt`.
        resume_point: the first steps, followed before.

    Raises:
        UserError: if the first steps of the log are others than those.
    """
    stream_state = stream_state or StreamState(group, seed, acting=False)
    stream_state.resume(resume_point)
    alive = torch.ones(1, dtype=torch.bool)  # also where the log says that its episode ended: the stream continues

    def steps() -> Iterator[Step]:
        for t, context in enumerate(contexts):
            row = stream.select(torch.tensor([t]))
            if resume_point is not None and t < len(resume_point):
                resume_point.again(t, row.state)
                continue
            group.set_context([context])
            yield Step(t, row.state, row.action, row.next_state, row.reward, alive, ~alive, [context])

    predictions = Predictions(group, stream_state)
    acting = Acting(before_update=predictions.make)
    followed = update_beliefs(group, steps(), torch.zeros(1, dtype=torch.long), stream_state.draws, acting)
    return predictions.beside(followed, belief_draws)


class Predictions:
    """What a group predicts of each step, before its beliefs learn from it.

    Args:
        group: the agents.
        stream_state: their random streams and intervals.
    """

    def __init__(self, group: AgentGroup, stream_state: StreamState) -> None:
        self.group, self.stream_state = group, stream_state
        self.environment = torch.arange(len(stream_state.intervals.factor))

    def make(self, step: Step) -> None:
        """Predict a step."""
        state, intervals = self.stream_state, self.stream_state.intervals
        observed = (step.state, step.action, step.next_state, self.environment)
        log_likelihood = self.group.log_predictive(*observed, state.draws)
        pit = self.group.predictive_pit(*observed, state.measuring, torch.ones_like(intervals.factor))
        factor = intervals.factor
        inside = intervals.cover(self.group.predictive_pit(*observed, state.measuring, factor))
        self.last = log_likelihood, pit, inside, factor

    def beside(self, steps: Iterable[Step], belief_draws: int) -> Iterator[AdaptationStep]:
        """Each step with its prediction, and with the beliefs after it."""
        for step in steps:
            yield AdaptationStep(
                step.index,
                step.context,
                step.reward,
                step.alive,
                *self.last,
                *self.group.beliefs(),
                *(step.state, step.action, step.next_state),
                *self.group.belief_draws(belief_draws, self.stream_state.reporting),
                step.plan,
                step.update,
                self.group.changed(),
                self.group.rests_on(),
            )
