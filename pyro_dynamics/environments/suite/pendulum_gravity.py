"""Gymnasium's Pendulum with gravity of varying size."""

from typing import Any

from gymnasium.envs.classic_control.pendulum import PendulumEnv

from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.environments.hidden_parameter import HiddenParameter


class PendulumGravityEnv(HiddenParameter, PendulumEnv):
    """Pendulum under ``gravity`` in m/s^2."""

    parameter = "gravity"

    def __init__(self, gravity: float = 10.0, render_mode: str | None = None) -> None:
        PendulumEnv.__init__(self, render_mode=render_mode)
        self.set_context(gravity)

    @classmethod
    def parse_context(cls, value: Any) -> float:
        return parse_number(value, "gravity", 0.0, 100.0, "m/s^2")

    def _write_context(self, context: float) -> None:
        self.g = context

    @property
    def context(self) -> float:
        return float(self.g)
