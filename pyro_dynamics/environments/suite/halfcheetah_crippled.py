"""HalfCheetah with one disabled actuator, or none."""

from typing import Any

from pyro_dynamics.environments.hidden_parameter import choose_context
from pyro_dynamics.environments.suite.halfcheetah import HiddenHalfCheetahEnv
from pyro_dynamics.errors import UserError

ACTUATORS = ("back-thigh", "back-shin", "back-foot", "front-thigh", "front-shin", "front-foot")
"""The actuators in the simulator's order."""


class HalfCheetahCrippledEnv(HiddenHalfCheetahEnv):
    """HalfCheetah whose actuator ``disabled`` gives no torque; ``"none"``, the default, is the healthy body.

    ``context`` is another word for it.
    The control cost still includes the action sent to the disabled actuator.
    """

    parameter = "disabled"

    def __init__(self, disabled: str | None = None, context: Any = None, **kwargs: Any) -> None:
        super().__init__(choose_context(context, {"disabled": disabled}, {"disabled": "none"}), **kwargs)

    @classmethod
    def parse_context(cls, value: Any) -> str:
        if value not in ("none", *ACTUATORS):
            raise UserError(f"disabled must be one of none, {', '.join(ACTUATORS)}, not {value!r}")
        return str(value)

    def _write_context(self, context: str) -> None:
        if not hasattr(self, "_nominal_gear"):  # scaled from a copy of the nominal values: changes never accumulate
            self._nominal_gear = self.model.actuator_gear.copy()
        self.model.actuator_gear[:] = self._nominal_gear
        if context != "none":
            self.model.actuator_gear[ACTUATORS.index(context)] = 0.0

    @property
    def context(self) -> str:
        dead = [name for name, gear in zip(ACTUATORS, self.model.actuator_gear, strict=True) if not gear.any()]
        return "+".join(dead) or "none"
