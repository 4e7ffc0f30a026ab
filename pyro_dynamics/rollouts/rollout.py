"""The loop of the environments alone: all of them step together, under any policy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from pyro_dynamics.environments import Context
from pyro_dynamics.environments.checked_env import checked_envs
from pyro_dynamics.errors import EnvironmentFault
from pyro_dynamics.tasks.spaces import choices_of, decide

Policy = Callable[[Tensor], Tensor]
"""Actions ``[B, A]`` for states ``[B, S]``."""
OnFault = Callable[[int, EnvironmentFault], object]
"""Called with an environment's number and with what it did wrong."""


@dataclass(frozen=True)
class Seconds:
    """How long something took: by the clock, and of this process's CPU time."""

    wall: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True)
class Step:
    """One step of B environments in lockstep.

    Attributes:
        index: the step within the episode.
        state: ``[B, S]``.
        action: ``[B, A]``, as the policy gave it.
        next_state: ``[B, S]``.
        reward: ``[B]``.
        alive: ``[B]``, false for environments whose episode ended before this step, or that broke in it; their other
            entries mean nothing.
        terminated: ``[B]``, whether the episode ended with this step for a reason other than its length.
        context: the true hidden parameter of each environment; None where it is not known, as in logged data.
        plan: what the policy took.
        update: what the update of the beliefs took.
    """

    index: int
    state: Tensor
    action: Tensor
    next_state: Tensor
    reward: Tensor
    alive: Tensor
    terminated: Tensor
    context: Sequence[Context | None]
    plan: Seconds = Seconds()
    update: Seconds = Seconds()


def rollout(envs: VectorEnv, policy: Policy, seeds: Sequence[int], on_fault: OnFault | None = None) -> Iterator[Step]:
    """Run one episode of every environment, until the last one ends.

    An environment whose episode ended early is reset so that the others can continue, and is marked as not alive from
    then on. So is one that breaks, from that step on, if ``on_fault`` is there to be called; no step is given in which
    all broke.

    Args:
        envs: environments with autoreset off and a true ``context`` in their ``info``.
        policy: called with the states before each step.
        seeds: for the reset of each environment.
        on_fault: called for each environment that breaks, with its fault.

    Raises:
        EnvironmentFault: of the first environment that breaks, where there is no ``on_fault``.
    """
    for guard in checked_envs(envs):
        guard.tolerant = on_fault is not None
    observation, info = envs.reset(seed=list(seeds))  # type: ignore[arg-type]  # one for each environment
    state = torch.as_tensor(observation, dtype=torch.float32)
    alive = torch.ones(envs.num_envs, dtype=torch.bool) & ~_broken(info, envs.num_envs, on_fault)
    index = 0
    while alive.any():
        action = policy(state)
        observation, reward, terminated, truncated, info = envs.step(as_actions(action, envs))
        next_state = torch.as_tensor(observation, dtype=torch.float32)
        reward = torch.as_tensor(reward, dtype=torch.float32)
        if "fault" in info:
            alive = alive & ~_broken(info, envs.num_envs, on_fault)
            if not alive.any():
                return
        yield Step(index, state, action, next_state, reward, alive, torch.from_numpy(terminated), info["context"])
        ended = terminated | truncated
        alive = alive & ~torch.from_numpy(ended)
        if ended.any() and alive.any():
            observation, _ = envs.reset(options={"reset_mask": ended})  # its faults are those of nobody's episode
            next_state = torch.as_tensor(observation, dtype=torch.float32)
        state = next_state
        index += 1


def _broken(info: dict[str, Any], environments: int, on_fault: OnFault | None) -> Tensor:
    """Which environments broke in this step, ``[B]``; reports each."""
    broken = torch.zeros(environments, dtype=torch.bool)
    for k, fault in enumerate(info.get("fault", ())):
        if fault is not None:
            broken[k] = True
            if on_fault is not None:
                on_fault(k, fault)
    return broken


def as_actions(action: Tensor, envs: VectorEnv) -> np.ndarray:
    """Actions ``[B, A]`` of the type that the environments take, and not past their bounds by a rounding error."""
    space: Any = envs.single_action_space
    return np.clip(action.numpy().astype(space.dtype, copy=False), space.low, space.high)


def uniform_policy(space: Any, environments: int, generator: torch.Generator) -> Policy:
    """Random actions of a box for the first episodes (line 1 of Algorithm 1); of discrete ones all equally often."""
    low, high = (torch.as_tensor(bound, dtype=torch.float32) for bound in (space.low, space.high))

    def policy(state: Tensor) -> Tensor:
        drawn = low + torch.rand(environments, len(low), generator=generator) * (high - low)
        return decide(drawn, choices_of(space))

    return policy
