"""HalfCheetah on a slope: gravity is tilted (the paper's environments)."""

import math
from typing import Any

import numpy as np

from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.environments.hidden_parameter import choose_context
from pyro_dynamics.environments.suite.halfcheetah import HiddenHalfCheetahEnv

GRAVITY = 9.81
"""Size of gravity in m/s^2; only its direction changes."""


class HalfCheetahTiltEnv(HiddenHalfCheetahEnv):
    """HalfCheetah under gravity tilted by ``tilt`` degrees; positive tilts run downhill, towards +x.

    It is 0 by default, and ``context`` is another word for it.
    """

    parameter = "tilt"

    def __init__(self, tilt: float | None = None, context: Any = None, **kwargs: Any) -> None:
        super().__init__(choose_context(context, {"tilt": tilt}, {"tilt": 0.0}), **kwargs)

    @classmethod
    def parse_context(cls, value: Any) -> float:
        return parse_number(value, "tilt", -90.0, 90.0, "degrees")

    def _write_context(self, context: float) -> None:
        angle = math.radians(context)
        self.model.opt.gravity[:] = [GRAVITY * math.sin(angle), 0.0, -GRAVITY * math.cos(angle)]

    @property
    def context(self) -> float:
        x, _, z = np.asarray(self.model.opt.gravity)
        return round(math.degrees(math.atan2(x, -z)), 9)  # undo the rounding error of the sine and cosine
