"""Gymnasium's Pendulum with gravity of varying size."""

from typing import Any

from gymnasium.envs.classic_control.pendulum import PendulumEnv

from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.environments.hidden_parameter import HiddenParameter, choose_context


class PendulumGravityEnv(HiddenParameter, PendulumEnv):
    """Pendulum under ``gravity`` in m/s^2, 10 by default, negative upwards; ``context`` is another word for it."""

    parameter = "gravity"

    def __init__(self, gravity: float | None = None, render_mode: str | None = None, context: Any = None) -> None:
        PendulumEnv.__init__(self, render_mode=render_mode)
        self.set_context(choose_context(context, {"gravity": gravity}, {"gravity": 10.0}))

    @classmethod
    def parse_context(cls, value: Any) -> float:
        return parse_number(value, "gravity", -100.0, 100.0, "m/s^2")

    def _write_context(self, context: float) -> None:
        self.g = context

    @property
    def context(self) -> float:
        return float(self.g)
