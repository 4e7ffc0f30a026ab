"""HalfCheetah with the observation and the reset of PETS."""

import copy
from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle

from pyro_dynamics.environments.hidden_parameter import HiddenParameter
from pyro_dynamics.environments.mujoco.mujoco_compat import without_settotalmass_warning


class PETSHalfCheetahEnv(HalfCheetahEnv):
    """Gymnasium's HalfCheetah-v5 with the velocity over the last step as the first entry of its observation.

    The observation (18) is [(x_t - x_{t-1}) / dt, qpos[1:] (8), qvel (9)], so that the reward can be computed from
    it. Episodes start at the initial state with N(0, 0.001^2) noise on positions and velocities (Chua et al. 2018).
    """

    def __init__(self, **kwargs: Any) -> None:
        self._x_before = 0.0
        with without_settotalmass_warning():
            HalfCheetahEnv.__init__(self, reset_noise_scale=0.001, **kwargs)
        EzPickle.__init__(self, **kwargs)  # copying and pickling re-run the constructor, with OUR arguments
        self.observation_space = Box(-np.inf, np.inf, (18,), np.float64)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        self._x_before = float(self.data.qpos[0])
        return super().step(action)

    def reset_model(self) -> np.ndarray:
        def noise(size: int) -> np.ndarray:
            return self.np_random.normal(0.0, self._reset_noise_scale, size)

        self.set_state(self.init_qpos + noise(self.model.nq), self.init_qvel + noise(self.model.nv))
        self._x_before = float(self.data.qpos[0])
        return self._get_obs()

    def _get_obs(self) -> np.ndarray:
        velocity = (self.data.qpos[0] - self._x_before) / self.dt
        return np.concatenate([[velocity], self.data.qpos[1:], self.data.qvel])

    def path_observations(self, positions: np.ndarray, velocities: np.ndarray) -> np.ndarray:
        """Observations along paths from here: ``[C, H + 1, nq]`` and ``[C, H + 1, nv]`` to ``[C, H + 1, 18]``."""
        before = np.concatenate([np.full_like(positions[:, :1, 0], self._x_before), positions[:, :-1, 0]], 1)
        velocity = (positions[..., 0] - before) / self.dt
        return np.concatenate([velocity[..., None], positions[..., 1:], velocities], -1)


class HiddenHalfCheetahEnv(HiddenParameter, PETSHalfCheetahEnv):
    """The same with one hidden parameter; copies keep it, and continue where the original is."""

    parameter: str

    def __init__(self, context: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        EzPickle.__init__(self, **{self.parameter: context}, **kwargs)
        self.set_context(context)

    def __getstate__(self) -> dict[str, Any]:
        self._ezpickle_kwargs[self.parameter] = self.context  # it may have changed since the constructor
        return {**super().__getstate__(), "where": (copy.copy(self.data), self.np_random, self._x_before)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        data, random, x_before = state.pop("where")
        super().__setstate__(state)
        mujoco.mj_copyData(self.data, self.model, data)
        self.np_random, self._x_before = random, x_before
