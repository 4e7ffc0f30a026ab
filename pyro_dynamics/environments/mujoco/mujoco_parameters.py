"""Physical parameters of a MuJoCo model that a family can hide: what to write, and how to read it back."""

import math
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.environments.delayed_actions import whole_steps
from pyro_dynamics.environments.mujoco.mujoco_fields import Physical, Scale, Value
from pyro_dynamics.environments.mujoco.mujoco_model import Simulator, names_of
from pyro_dynamics.errors import UserError

AXES = {"x": 0, "y": 1, "z": 2}


def mass(*bodies: str | int, inertia: bool = True, power: float = 1.0) -> Scale:
    """Factor on the mass of bodies (all by default), and on their inertia, as of a body of another density.

    Args:
        bodies: their names.
        inertia: without it only mjModel's ``body_mass`` changes, and nothing that MuJoCo derives from it: not
            physical, but what CaDM (Lee et al. 2020) calls a change of mass.
        power: see :class:`Scale`.
    """
    fields = ("body_mass", "body_inertia") if inertia else ("body_mass",)
    return Scale(fields, "body", bodies, power=power, zero=False, changes_mass=inertia)


def damping(*joints: str | int) -> Scale:
    """Factor on the damping of joints (all by default)."""
    return Scale(("dof_damping",), "joint", joints)


def friction(*geoms: str | int) -> Scale:
    """Factor on the sliding friction of geoms (all by default).

    MuJoCo gives a contact the LARGER friction of its two geoms: to make one slippery, the other must be as well.
    """
    return Scale(("geom_friction", "pair_friction"), "geom", geoms, columns=1)


def gain(*actuators: str | int) -> Scale:
    """Factor on the force of actuators (all by default): on their gain, and on their bias if they have one."""
    return Scale(("actuator_gainprm", "actuator_biasprm"), "actuator", actuators)


def armature(*joints: str | int) -> Scale:
    """Factor on the armature of joints (all by default): the inertia of their rotors, as their gears show it."""
    return Scale(("dof_armature",), "joint", joints, changes_mass=True)


def friction_loss(*joints: str | int) -> Value:
    """Dry friction of joints (all by default), in N m, or in N where they slide: 0 in most models."""
    return Value("dof_frictionloss", "joint", "N m", joints)


def tendon_stiffness(*tendons: str | int) -> Value:
    """Stiffness of tendons (all by default) as springs, in N/m: 0 in most models."""
    return Value("tendon_stiffness", "tendon", "N/m", tendons)


@dataclass(frozen=True)
class CentreOfMass(Physical):
    """Displacement of a body's centre of mass in m, along an axis of the body; its inertia moves with it."""

    body: str | int
    axis: str = "x"
    unit = "m"
    changes_mass = True

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, -10.0, 10.0, self.unit)

    def check(self, simulator: Simulator) -> None:
        _check_axis(self.axis)
        row, _ = self._place(simulator)
        if simulator.model.body_simple[row]:
            raise UserError(
                f"the centre of mass of {self.body!r} cannot be moved: MuJoCo compiled it as a body whose mass matrix "
                "is diagonal; displace it a little in the model file"
            )

    def write(self, simulator: Simulator, value: float) -> None:
        row, column = self._place(simulator)
        simulator.model.body_ipos[row, column] += value
        if value:  # else MuJoCo takes the body's own frame for that of its inertia
            simulator.model.body_sameframe[row] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE

    def read(self, simulator: Simulator) -> float:
        place = self._place(simulator)
        return round(float(simulator.model.body_ipos[place] - simulator.nominal["body_ipos"][place]), 9)

    def _place(self, simulator: Simulator) -> tuple[int, int]:
        return simulator.rows("body_ipos", "body", (self.body,))[0], AXES[self.axis]


@dataclass(frozen=True)
class ActionDelay(Physical):
    """Steps after which an action acts, from 0 to ``most``; the actions under way are appended to the observation.

    See :class:`~pyro_dynamics.environments.delayed_actions.DelayedActions`.
    """

    most: int = 3
    unit = "steps"

    def parse(self, value: Any, name: str) -> float:
        return whole_steps(value, name, self.most)

    def check(self, simulator: Simulator) -> None:
        pass

    def write(self, simulator: Simulator, value: float) -> None:
        assert simulator.delayed is not None
        simulator.delayed.set_context(value)

    def read(self, simulator: Simulator) -> float:
        assert simulator.delayed is not None
        return simulator.delayed.context


@dataclass(frozen=True)
class Gravity(Physical):
    """Gravity in m/s^2 in the direction that it has, downwards where the model has none; negative is the other way."""

    unit = "m/s^2"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, -100.0, 100.0, self.unit)

    def check(self, simulator: Simulator) -> None:
        pass

    def write(self, simulator: Simulator, value: float) -> None:
        gravity = simulator.model.opt.gravity
        size = np.linalg.norm(gravity)
        gravity[:] = gravity / size * value if size else [0.0, 0.0, -value]

    def read(self, simulator: Simulator) -> float:
        gravity, nominal = simulator.model.opt.gravity, simulator.nominal["gravity"]
        forwards = gravity @ nominal if nominal.any() else -gravity[2]
        return round(math.copysign(float(np.linalg.norm(gravity)), forwards), 9)  # tilted by 90 degrees at most


@dataclass(frozen=True)
class Tilt(Physical):
    """Direction of gravity: tilted by so many degrees, which makes positive ``axis`` run downhill."""

    axis: str = "x"
    unit = "degrees"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, -90.0, 90.0, self.unit)

    def check(self, simulator: Simulator) -> None:
        if self.axis not in ("x", "y"):
            raise UserError(f"gravity tilts along x or y, not {self.axis!r}")
        if not simulator.model.opt.gravity.any():
            raise UserError("gravity is 0 in this simulator: it has no direction that could be tilted")

    def write(self, simulator: Simulator, value: float) -> None:
        gravity, angle = simulator.model.opt.gravity, math.radians(value)
        size = math.copysign(float(np.linalg.norm(gravity)), -gravity[2])  # it may have been made to pull upwards
        gravity[:] = 0.0
        gravity[AXES[self.axis]], gravity[2] = size * math.sin(angle), -size * math.cos(angle)

    def read(self, simulator: Simulator) -> float:
        gravity = simulator.model.opt.gravity
        down = math.copysign(1.0, -gravity[2])
        # Rounded, to undo the error of the sine and cosine.
        return round(math.degrees(math.atan2(down * gravity[AXES[self.axis]], -down * gravity[2])), 9)


@dataclass(frozen=True)
class Wind(Physical):
    """Velocity of the medium along an axis, in m/s.

    MuJoCo's wind acts through a medium alone, and most models have none (density and viscosity 0): they get one of
    ``density``, in kg/m^3, that of air by default, which also causes drag without wind. Air has little effect on a
    robot; :class:`Force` is stronger.
    """

    axis: str = "x"
    density: float = 1.2
    unit = "m/s"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, -1000.0, 1000.0, self.unit)

    def check(self, simulator: Simulator) -> None:
        _check_axis(self.axis)
        if not simulator.has_medium and not self.density > 0:
            raise UserError("wind needs a medium: give it a density above 0")

    def write(self, simulator: Simulator, value: float) -> None:
        if not simulator.has_medium:
            simulator.model.opt.density = self.density
        simulator.model.opt.wind[AXES[self.axis]] = value

    def read(self, simulator: Simulator) -> float:
        return float(simulator.model.opt.wind[AXES[self.axis]])


@dataclass(frozen=True)
class Force(Physical):
    """Constant force in newtons along a world axis, on the centre of mass of a body."""

    body: str | int
    axis: str = "x"
    unit = "N"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, -1e5, 1e5, self.unit)

    def check(self, simulator: Simulator) -> None:
        _check_axis(self.axis)
        self._place(simulator)

    def write(self, simulator: Simulator, value: float) -> None:
        simulator.data.xfrc_applied[self._place(simulator)] = value

    def read(self, simulator: Simulator) -> float:
        return float(simulator.data.xfrc_applied[self._place(simulator)])

    def _place(self, simulator: Simulator) -> tuple[int, int]:
        return simulator.rows("xfrc_applied", "body", (self.body,))[0], AXES[self.axis]


@dataclass(frozen=True)
class Disabled(Physical):
    """Actuators that give no force, by the name of the joint or actuator: a category, or ``none``, or ``a+b``.

    Attributes:
        names: the actuators' names in a context, in the simulator's order; its own names by default.
    """

    names: tuple[str, ...] = ()
    unit = "actuator"

    def parse(self, value: Any, name: str) -> str:
        parts = str(value).split("+")
        if self.names and value != "none" and not set(parts) <= set(self.names):
            raise UserError(f"{name} must be one of none, {', '.join(self.names)}, or several with +, not {value!r}")
        return "none" if value == "none" else "+".join(sorted(parts, key=self.names.index if self.names else None))

    def check(self, simulator: Simulator) -> None:
        if self.names and len(self.names) != simulator.model.nu:
            raise UserError(f"{len(self.names)} names for {simulator.model.nu} actuators: {', '.join(self.names)}")

    def write(self, simulator: Simulator, value: str) -> None:
        names = list(self.names or names_of(simulator.model, "actuator"))
        for part in value.split("+") if value != "none" else ():
            if part not in names:
                raise UserError(f"the simulator has no actuator {part!r}; it has {', '.join(names)}")
            simulator.model.actuator_gear[names.index(part)] = 0.0

    def read(self, simulator: Simulator) -> str:
        names = self.names or tuple(names_of(simulator.model, "actuator"))
        dead = [name for name, gear in zip(names, simulator.model.actuator_gear, strict=True) if not gear.any()]
        return "+".join(dead if self.names else sorted(dead)) or "none"


def _check_axis(axis: str) -> None:
    if axis not in AXES:
        raise UserError(f"an axis is x, y or z, not {axis!r}")
