"""Whether environments in one process are apart: one that is stepped alone goes as it does beside the others."""

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor

from pyro_dynamics.rollouts.rollout import Step, as_actions


def compare_alone(steps: Sequence[Step], envs: SyncVectorEnv, seeds: Sequence[int], tolerance: float) -> str:
    """A warning if an environment goes elsewhere when it is stepped alone, from the same reset by the same actions.

    Args:
        steps: the first of an episode in lockstep, which repeats itself.
        envs: the environments, which are used up.
        seeds: of their resets.
        tolerance: share of an entry's largest number.
    """
    if envs.num_envs == 1:
        return ""
    size = torch.cat([step.next_state.abs() for step in steps]).amax(0).clamp(min=1e-30)
    for k, env in enumerate(envs.envs):
        alone = _alone(env, [as_actions(step.action, envs)[k] for step in steps if step.alive[k]], seeds[k])
        for step, state in zip(steps, alone, strict=False):
            if ((state - step.next_state[k]).abs() > tolerance * size).any():
                return (
                    f"an environment goes elsewhere when the others stand still: environment {k} (context "
                    f"{step.context[k]}) at step {step.index}, from the same reset by the same actions; they share "
                    "something in this process, such as one simulator, one physics client, one connection or one "
                    "generator of random numbers, and their data mix: let each environment that is made have its own"
                )
    return ""


def _alone(env: Any, actions: Sequence[Any], seed: int) -> list[Tensor]:
    """The states after each action."""
    env.reset(seed=seed)
    return [torch.as_tensor(env.step(action)[0], dtype=torch.float32) for action in actions]
