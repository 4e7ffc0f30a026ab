"""Episodes of a trained group, one after the other, with beliefs that continue from each to the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Schedule
from pyro_dynamics.rollouts.acting import Acting, ContextChange, act_and_update
from pyro_dynamics.rollouts.rollout import rollout, uniform_policy
from pyro_dynamics.seeding import derive_generator, derive_seed


@dataclass(frozen=True)
class BeliefAblation:
    """What is done with a latent agent's beliefs; the default is the paper's, the others are baselines.

    Attributes:
        updates: whether beliefs follow the transitions (Eq. 5); without, they stay at the prior.
        reset_on_change: whether all beliefs return to the prior when an environment changes, also from one episode to
            the next: the oracle-reset baseline.
        shuffled: whether each environment is planned for with the belief about another one.
    """

    updates: bool = True
    reset_on_change: bool = False
    shuffled: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """What came of the episodes in K environments.

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
    envs: VectorEnv,
    schedules: Sequence[Schedule],
    episodes: int,
    seed: int,
    ablation: BeliefAblation,
    on_step: Callable[[], object] = lambda: None,
) -> EvaluationResult:
    """Act for some episodes in each of K environments, theta fixed, beliefs updated after every step (Eq. 5).

    Episodes start alike whatever the group and the ablation are, so that differences are taken on common starts.

    Args:
        group: agents over K environments, with fresh beliefs.
        envs: K environments in lockstep.
        schedules: the true context of each environment by step; it begins anew with each episode.
        episodes: number E of episodes.
        seed: names the random streams.
        ablation: what is done with the beliefs.
        on_step: called after each step.
    """
    everyone = torch.arange(envs.num_envs)
    acting = Acting(
        believed=everyone.roll(1) if ablation.shuffled else everyone,
        updates=ablation.updates,
        before_step=ContextChange(group, schedules, ablation.reset_on_change),
    )
    returns = torch.zeros(episodes, envs.num_envs)
    for episode in range(episodes):
        draws = derive_generator(seed, "meeting", episode, "actions")  # these names decide the numbers
        for step in act_and_update(group, envs, reset_seeds(seed, episode, envs.num_envs), draws, acting):
            returns[episode] += step.reward * step.alive
            on_step()
    return EvaluationResult(returns, *group.beliefs())


def reset_seeds(seed: int, episode: int, count: int) -> list[int]:
    """The seeds with which :func:`evaluate` starts an episode, for each environment: the same for every agent."""
    return [derive_seed(seed, "meeting", episode, "reset", k) for k in range(count)]


def random_returns(envs: VectorEnv, seed: int) -> list[float]:
    """The return of one episode in each environment under random actions (the paper's B_k, over 50 of them)."""
    space = envs.single_action_space
    draws = derive_generator(seed, "random", "actions")
    policy = uniform_policy(space, envs.num_envs, draws)
    seeds = [derive_seed(seed, "random", "reset", k) for k in range(envs.num_envs)]
    returns = torch.zeros(envs.num_envs)
    for step in rollout(envs, policy, seeds):
        returns += step.reward * step.alive
    return returns.tolist()
