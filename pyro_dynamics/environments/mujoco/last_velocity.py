"""The velocity over the last step as an observation."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.errors import UserError


class LastVelocity(gymnasium.Wrapper, RecordConstructorArgs):
    """Prepends the velocity over the last step, (x_t - x_{t-1}) / dt in m/s, to the observation.

    Gymnasium's locomotion is rewarded for it, but does not observe it: with it the reward is a function of the next
    observation, as in PETS (Chua et al. 2018). It is the environment's own ``info["x_velocity"]``; 0 after a reset.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        space: Any = env.observation_space
        low, high = (
            np.concatenate([[bound], limits]) for bound, limits in ((-np.inf, space.low), (np.inf, space.high))
        )
        self.observation_space = Box(low, high, dtype=space.dtype)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return self._with(0.0, observation), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "x_velocity" not in info:
            raise UserError(f"{type(self.env.unwrapped).__name__} has no x_velocity in its info")
        return self._with(info["x_velocity"], observation), reward, terminated, truncated, info

    def _with(self, velocity: float, observation: np.ndarray) -> np.ndarray:
        return np.concatenate([[velocity], observation]).astype(observation.dtype)
