"""Wrappers that append to an observation what the model learns: reward and termination."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box

from pyro_dynamics.tasks.functions import Function, evaluate


class AppendOutcome(gymnasium.Wrapper):
    """Appends the last reward, and whether the episode ended with it, to the observation; 0 after a reset.

    Args:
        env: with a Box of one axis as observation space.
        reward: whether the reward is appended.
        terminated: whether the termination is, as 0 or 1; it comes last.
    """

    def __init__(self, env: gymnasium.Env, reward: bool, terminated: bool) -> None:
        super().__init__(env)
        self.with_reward, self.with_termination = reward, terminated
        space: Any = env.observation_space
        dtype: Any = space.dtype if np.issubdtype(space.dtype, np.floating) else np.float32
        unbounded = np.full(reward + terminated, np.inf)
        low, high = np.concatenate([space.low, -unbounded]), np.concatenate([space.high, unbounded])
        self.observation_space = Box(low.astype(dtype), high.astype(dtype), dtype=dtype)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return self._with(observation, 0.0, False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with(observation, float(reward), terminated), reward, terminated, truncated, info

    def _with(self, observation: Any, reward: float, terminated: bool) -> np.ndarray:
        outcome = [reward] * self.with_reward + [float(terminated)] * self.with_termination
        return np.concatenate([observation, outcome]).astype(self.observation_space.dtype)


class ContextReward(gymnasium.Wrapper):
    """Gives a reward that depends on the true context, in place of the environment's own.

    Args:
        env: has its hidden parameter in ``info["context"]``.
        reward: of ``(state [1, S], action [1, A], next_state [1, S], context)``, giving ``[1]``. A context that is a
            number comes as a tensor ``[1]``, one of n numbers as ``[1, n]``, a name as it is.
    """

    def __init__(self, env: gymnasium.Env, reward: Function) -> None:
        super().__init__(env)
        self.function = reward
        self.state: torch.Tensor | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self.state = _row(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = self.env.step(action)
        next_state = _row(observation)
        reward = evaluate("reward", self.function, self.state, _row(action), next_state, _tensors(info["context"]))
        self.state = next_state
        return observation, float(reward), terminated, truncated, info


def _row(values: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)[None]


def _tensors(context: Any) -> Any:
    """A context of numbers as a tensor ``[1]`` or ``[1, n]``."""
    return context if isinstance(context, str) else torch.as_tensor(context, dtype=torch.float32)[None]
