"""Physical parameters of a MuJoCo model that a family can hide: what to write, and how to read it back."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_dynamics.environments.contexts import Context, parse_number
from pyro_dynamics.environments.mujoco.mujoco_model import Simulator, names_of
from pyro_dynamics.errors import UserError

AXES = {"x": 0, "y": 1, "z": 2}


class Physical(ABC):
    """One physical parameter.

    Attributes:
        unit: of its values.
        changes_mass: whether MuJoCo must derive its constants again after a change.
    """

    unit: str
    changes_mass: bool = False

    @abstractmethod
    def parse(self, value: Any, name: str) -> Any:
        """The value of a text or number; ``name`` is the parameter's.

        Raises:
            UserError: if it is out of range.
        """

    @abstractmethod
    def check(self, simulator: Simulator) -> None:
        """Raises :class:`UserError` if the model does not have what is to be changed."""

    @abstractmethod
    def write(self, simulator: Simulator, value: Any) -> None:
        """Change the model, which has its nominal values apart from other parameters' changes."""

    @abstractmethod
    def read(self, simulator: Simulator) -> Context:
        """The value that the simulator holds; NaN where it holds none."""


@dataclass(frozen=True)
class Scale(Physical):
    """A factor on nominal values.

    Attributes:
        fields: arrays of mjModel.
        kind: body, joint, geom or actuator.
        parts: their names (or indices); all where it is empty.
        columns: how many columns are scaled, from the first on, where the arrays have several; None for all.
        power: the values are scaled by ``factor ** power``; -1 makes some parts lighter as others get heavier.
        zero: whether the factor may be 0.
    """

    fields: tuple[str, ...]
    kind: str
    parts: tuple[str | int, ...] = ()
    columns: int | None = None
    power: float = 1.0
    zero: bool = True
    changes_mass: bool = False
    unit = "of nominal"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, 0.0, 100.0, "times nominal", closed=self.zero)

    def check(self, simulator: Simulator) -> None:
        if not self._nominal(simulator).any():
            which = ", ".join(map(str, self.parts)) or f"every {self.kind}"
            raise UserError(f"{self.fields[0]} of {which} is 0: a factor does not change it")

    def write(self, simulator: Simulator, value: float) -> None:
        for field in self.fields:
            rows = simulator.rows(field, self.kind, self.parts)
            array = getattr(simulator.model, field)
            array[self._place(rows, array)] *= value**self.power

    def read(self, simulator: Simulator) -> float:
        held = np.concatenate([self._flat(simulator, getattr(simulator.model, field), field) for field in self.fields])
        nominal = self._nominal(simulator)
        factors = held[nominal != 0] / nominal[nominal != 0]
        if np.ptp(factors) > 1e-9 * abs(factors[0]):
            return math.nan
        return round(float(factors[0] ** (1 / self.power)), 9)

    def _place(self, rows: list[int], array: np.ndarray) -> Any:
        return (rows, slice(self.columns)) if array.ndim > 1 else rows

    def _flat(self, simulator: Simulator, array: np.ndarray, field: str) -> np.ndarray:
        return array[self._place(simulator.rows(field, self.kind, self.parts), array)].ravel()

    def _nominal(self, simulator: Simulator) -> np.ndarray:
        return np.concatenate([self._flat(simulator, simulator.nominal[field], field) for field in self.fields])


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


@dataclass(frozen=True)
class Gravity(Physical):
    """Size of gravity in m/s^2, in whatever direction it has; downwards where the model has none."""

    unit = "m/s^2"

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, 0.0, 100.0, self.unit)

    def check(self, simulator: Simulator) -> None:
        pass

    def write(self, simulator: Simulator, value: float) -> None:
        gravity = simulator.model.opt.gravity
        size = np.linalg.norm(gravity)
        gravity[:] = gravity / size * value if size else [0.0, 0.0, -value]

    def read(self, simulator: Simulator) -> float:
        return round(float(np.linalg.norm(simulator.model.opt.gravity)), 9)


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
        size = float(np.linalg.norm(gravity))
        gravity[:] = 0.0
        gravity[AXES[self.axis]], gravity[2] = size * math.sin(angle), -size * math.cos(angle)

    def read(self, simulator: Simulator) -> float:
        gravity = simulator.model.opt.gravity
        # Rounded, to undo the error of the sine and cosine.
        return round(math.degrees(math.atan2(gravity[AXES[self.axis]], -gravity[2])), 9)


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
