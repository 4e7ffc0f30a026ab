"""The environments of CaDM (Lee et al. 2020) that Gymnasium does not have as they are."""

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.envs.mujoco.humanoid_v5 import HumanoidEnv
from gymnasium.utils import EzPickle

from pyro_dynamics.environments.contexts import Context, numbers, parse_number, split_context
from pyro_dynamics.environments.hidden_parameter import HiddenParameter, choose_context
from pyro_dynamics.environments.suite.cartpole import ContinuousCartPoleEnv


class FullForceCartPoleEnv(ContinuousCartPoleEnv):
    """CartPole with the full force to the right where the action is above 0, else to the left.

    That is the discrete action of CaDM's CartPole, for planners of real actions.
    """

    def force(self, action: np.ndarray) -> float:
        return self.force_mag if action[0] > 0 else -self.force_mag


class CaDMPendulumEnv(HiddenParameter, PendulumEnv):
    """Pendulum of a ``mass`` in kg and a ``length`` in m, both 1 by default; ``context`` has both.

    Unlike Gymnasium's it starts within 22.5 degrees of hanging and slowly, integrates the velocity before that is
    clipped, and squares half of the torque for its cost.
    """

    parameter = ("mass", "length")

    def __init__(
        self,
        mass: float | None = None,
        length: float | None = None,
        render_mode: str | None = None,
        context: Any = None,
    ) -> None:
        PendulumEnv.__init__(self, render_mode=render_mode)
        named = {"mass": mass, "length": length}
        self.set_context(choose_context(context, named, {"mass": 1.0, "length": 1.0}))

    @classmethod
    def parse_context(cls, value: Any) -> Context:
        mass, length = split_context(value, cls.parameter)
        return parse_number(mass, "mass", 0.0, 100.0, "kg"), parse_number(length, "length", 0.0, 100.0, "m")

    def _write_context(self, context: Context) -> None:
        self.m, self.l = numbers(context)

    @property
    def context(self) -> Context:
        return float(self.m), float(self.l)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed, options=options)
        self.state = self.np_random.uniform([7 / 8 * math.pi, -0.2], [9 / 8 * math.pi, 0.2])
        return self._get_obs(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        angle, rate = self.state
        torque = float(np.clip(action, -self.max_torque, self.max_torque)[0])
        self.last_u = torque  # for rendering
        off = (angle + math.pi) % (2 * math.pi) - math.pi
        cost = off**2 + 0.1 * rate**2 + 0.001 * (torque / 2) ** 2
        rate = rate + (1.5 * self.g / self.l * math.sin(angle) + 3.0 / (self.m * self.l**2) * torque) * self.dt
        self.state = np.array([angle + rate * self.dt, np.clip(rate, -self.max_speed, self.max_speed)])
        if self.render_mode == "human":
            self.render()
        return self._get_obs(), -float(cost), False, False, {}


class SlimHumanoidEnv(HumanoidEnv):
    """Humanoid-v5 that observes only its positions and velocities (45), with CaDM's reward, and never terminates."""

    def __init__(self, **kwargs: Any) -> None:
        HumanoidEnv.__init__(
            self,
            terminate_when_unhealthy=False,
            include_cinert_in_observation=False,
            include_cvel_in_observation=False,
            include_qfrc_actuator_in_observation=False,
            include_cfrc_ext_in_observation=False,
            **kwargs,
        )
        EzPickle.__init__(self, **kwargs)  # copying re-runs the constructor, with OUR arguments

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        speed = float(self.data.qvel[0])
        observation, _, _, truncated, info = super().step(action)
        upright = 1.0 <= self.data.qpos[2] <= 2.0
        reward = 0.25 / 0.015 * speed - 0.1 * float(np.square(self.data.ctrl).sum()) + 5.0 * upright
        return observation, reward, False, truncated, info
