"""A point mass whose environment breaks under a drag of 2, each time in another way; under 1 and 3 all is well."""

import time
from typing import Any

import numpy as np
import point_mass

from pyro_dynamics import Family
from pyro_dynamics.tasks import BoxTask

BROKEN = 2.0


class Faulty(point_mass.PointMass):
    """Counts its steps, and breaks in one of them."""

    fault = "none"
    everywhere = False
    first = 5
    """Steps of an episode in which all is well."""

    def reset(self, **kwargs: Any) -> Any:
        self.count = 0
        observation, info = super().reset(**kwargs)
        if self.breaks("reset-raises"):
            raise ConnectionError("the robot does not answer")
        if self.breaks("reset-nan"):
            return observation * np.nan, info
        return (observation, info) if not self.breaks("old-reset") else observation

    def breaks(self, fault: str) -> bool:
        return self.fault == fault and (self.everywhere or self.drag == BROKEN)

    def step(self, action: np.ndarray) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        if self.count <= self.first:
            if self.breaks("empty"):
                return observation, reward, True, truncated, info
            return observation, reward, terminated, truncated, info
        if self.breaks("raises"):
            raise ZeroDivisionError("of the\nsimulator")
        if self.breaks("hangs"):
            while True:
                try:
                    time.sleep(0.01)
                except Exception:  # an alarm must get through this
                    continue
        if self.breaks("four"):
            return observation, reward, terminated, info
        if self.breaks("shape"):
            return observation[:3], reward, terminated, truncated, info
        if self.breaks("dtype"):
            return observation.astype(complex), reward, terminated, truncated, info
        if self.breaks("no-array"):
            return None, reward, terminated, truncated, info
        if self.breaks("no-reward"):
            return observation, None, terminated, truncated, info
        if self.breaks("reward-nan"):
            return observation, float("nan"), terminated, truncated, info
        for name, end in (
            ("no-end", None),
            ("text-end", "no"),
            ("nan-end", np.nan),
            ("two-ends", np.array([True, False])),
        ):
            if self.breaks(name):
                return observation, reward, end, truncated, info
        if self.breaks("cut-text"):
            return observation, reward, terminated, "no", info
        if self.breaks("reward-text"):
            return observation, "1", terminated, truncated, info
        if self.breaks("no-info"):
            return observation, reward, terminated, truncated, None
        for name, value in (("nan", np.nan), ("infinite", -np.inf), ("huge", 1e30)):
            if self.breaks(name):
                observation[2] = value
        if self.breaks("infos"):
            info = {"contacts": np.zeros(self.count)}
        return observation, reward, terminated, truncated, info


FAULTS = {
    "raises": "step() raised ZeroDivisionError: of the simulator",
    "hangs": "step() took longer than 0.3 s",
    "four": "step() must return (observation, reward, terminated, truncated, info), as in Gymnasium's API",
    "shape": "the observation has the shape [3], not [5]",
    "dtype": "the observation is of the type complex128, not float64",
    "no-array": "the observation has the shape [], not [5]",
    "no-reward": "the reward is no number but NoneType None",
    "reward-nan": "the reward is nan",
    "reward-text": "the reward is no number but str '1'",
    "no-end": "terminated must be True or False, and is NoneType None",
    "text-end": "terminated must be True or False, and is str 'no'",
    "nan-end": "terminated must be True or False, and is float nan",
    "two-ends": "terminated must be True or False, and is ndarray array([ True, False])",
    "cut-text": "truncated must be True or False, and is str 'no'",
    "no-info": "the info must be a dict, and is NoneType None",
    "nan": "observation[2] is nan",
    "infinite": "observation[2] is -inf",
    "huge": "observation[2] is 1e+30, beyond 1e+15",
    "reset-raises": "reset() raised ConnectionError: the robot does not answer",
    "reset-nan": "observation[0] is nan",
    "old-reset": "reset() must return (observation, info), as in Gymnasium's API",
}
"""The error of each."""


def family(fault: str, everywhere: bool = False, **more: Any) -> Family:
    """Drags 1, 2 and 3; the environment has the fault where the drag is 2, or everywhere."""
    kind = type("Kind", (Faulty,), {"fault": fault, "everywhere": everywhere, **more})
    how = (point_mass.reward,) if fault != "nan" else ()  # there the reward is learned
    return Family("faulty", kind, "drag", "1/s", (1.0, 2.0, 3.0), (2.0, 3.0), lambda: BoxTask(kind(), *how))


def __getattr__(name: str) -> Any:
    """``raises`` has the fault under one drag, ``all_raises`` under each, ``later_raises`` only after the check."""
    word, _, fault = name.rpartition("_")
    if fault.replace("8", "-") not in {*FAULTS, "empty", "infos"}:
        raise AttributeError(name)
    more = {"first": 110} if word == "later" else {}
    return lambda: family(fault.replace("8", "-"), word in ("all", "later"), **more)
