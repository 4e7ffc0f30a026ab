"""CartPole with a force of any size, without MuJoCo."""

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box

from pyro_dynamics.environments.contexts import Context, numbers, parse_number, split_context
from pyro_dynamics.environments.hidden_parameter import HiddenParameter, choose_context


class ContinuousCartPoleEnv(HiddenParameter, CartPoleEnv):
    """Gymnasium's CartPole with an action in [-1, 1]: that share of the largest ``force`` in N pushes the cart.

    The ``length`` in m is that of half the pole. They are 10 and 0.5 by default, and ``context`` has both. The
    equations of motion are those of Barto, Sutton and Anderson (1983) without friction; an Euler step takes 0.02 s. The
    reward is 1 a step until the pole is 12 degrees off, or the cart 2.4 m.
    """

    parameter = ("force", "length")

    def __init__(
        self,
        force: float | None = None,
        length: float | None = None,
        render_mode: str | None = None,
        context: Any = None,
    ) -> None:
        CartPoleEnv.__init__(self, render_mode=render_mode)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        named = {"force": force, "length": length}
        self.set_context(choose_context(context, named, {"force": 10.0, "length": 0.5}))

    @classmethod
    def parse_context(cls, value: Any) -> Context:
        force, length = split_context(value, cls.parameter)
        return parse_number(force, "force", 0.0, 1000.0, "N"), parse_number(length, "length", 0.0, 100.0, "m")

    def _write_context(self, context: Context) -> None:
        self.force_mag, self.length = numbers(context)
        self.polemass_length = self.masspole * self.length

    @property
    def context(self) -> Context:
        return float(self.force_mag), float(self.length)

    def force(self, action: np.ndarray) -> float:
        """The force on the cart in N."""
        return self.force_mag * float(np.clip(action[0], -1.0, 1.0))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        assert self.state is not None, "call reset before step"
        x, speed, angle, rate = (float(value) for value in self.state)
        sin, cos = math.sin(angle), math.cos(angle)
        push = (self.force(action) + self.polemass_length * rate**2 * sin) / self.total_mass
        effective_length = self.length * (4.0 / 3.0 - self.masspole * cos**2 / self.total_mass)
        turn = (self.gravity * sin - cos * push) / effective_length
        acceleration = push - self.polemass_length * turn * cos / self.total_mass
        tau = self.tau
        self.state = np.array((x + tau * speed, speed + tau * acceleration, angle + tau * rate, rate + tau * turn))
        observation = self.state.astype(np.float32)
        # By the observation: the threshold in its float32.
        fallen = abs(observation[0]) > self.x_threshold or abs(observation[2]) > self.theta_threshold_radians
        if self.render_mode == "human":
            self.render()
        return observation, 1.0, bool(fallen), False, {}
