"""Episodes in environments that a trained group meets, one after the other, with beliefs that go on between them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Schedule
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy
from pyro_dynamics.seeding import derive_generator, derive_seed


@dataclass(frozen=True)
class BeliefAblation:
    """What is done with a latent agent's beliefs; the default is the paper's, the others are baselines.

    Attributes:
        updates: whether beliefs follow the transitions (Eq. 5); without, they stay at the prior.
        told: whether all beliefs return to the prior when an environment changes, also from one episode to the next.
        shuffled: whether each robot plans with the belief about another robot's environment.
    """

    updates: bool = True
    told: bool = False
    shuffled: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """What came of the episodes with K robots.

    Attributes:
        returns: of each episode, ``[E, K]``.
        mean: of the beliefs at the end, ``[K, d]``.
        scale: their standard deviations, ``[K, d]``.
    """

    returns: Tensor
    mean: Tensor
    scale: Tensor


def evaluate(
    group: AgentGroup,
    robots: VectorEnv,
    schedules: Sequence[Schedule],
    episodes: int,
    seed: int,
    ablation: BeliefAblation,
    on_step: Callable[[], object] = lambda: None,
) -> EvaluationResult:
    """Act for some episodes in each of K environments, theta fixed, beliefs updated after every step (Eq. 5).

    Robots start alike whatever the group and the ablation are, so that differences are taken on common starts.

    Args:
        group: agents with one environment for each robot, and fresh beliefs.
        robots: K environments in lockstep.
        schedules: the true context of each robot by step; it begins anew with each episode.
        episodes: number E of episodes.
        seed: names the random streams.
        ablation: what is done with the beliefs.
        on_step: called after each step of the robots.
    """
    environment = torch.arange(robots.num_envs)
    believed = environment.roll(1) if ablation.shuffled else environment
    returns = torch.zeros(episodes, robots.num_envs)
    last_contexts = None
    for episode in range(episodes):
        draws = derive_generator(seed, "meeting", episode, "actions")
        seeds = [derive_seed(seed, "meeting", episode, "reset", k) for k in range(robots.num_envs)]
        times = itertools.count()

        def policy(state: Tensor, draws: torch.Generator = draws, times: Iterator[int] = times) -> Tensor:
            nonlocal last_contexts
            now = next(times)
            contexts = [schedule.at(now) for schedule in schedules]
            if ablation.told and last_contexts not in (None, contexts):
                group.reset_beliefs()
            last_contexts = contexts
            group.set_context(contexts)
            return group.act(state, believed, draws)

        group.reset()
        for step in rollout(robots, policy, seeds):
            returns[episode] += step.reward * step.alive
            keep = step.alive
            if ablation.updates and keep.any():
                group.observe(step.state[keep], step.action[keep], step.next_state[keep], environment[keep], draws)
            on_step()
    return EvaluationResult(returns, *group.beliefs())


def random_returns(robots: VectorEnv, seed: int) -> list[float]:
    """The return of one episode of each robot under random actions (the paper's B_k, over 50 of them)."""
    space = robots.single_action_space
    draws = derive_generator(seed, "random", "actions")
    policy = uniform_policy(space.low, space.high, robots.num_envs, draws)  # type: ignore[attr-defined]
    seeds = [derive_seed(seed, "random", "reset", k) for k in range(robots.num_envs)]
    returns = torch.zeros(robots.num_envs)
    for step in rollout(robots, policy, seeds):
        returns += step.reward * step.alive
    return returns.tolist()
