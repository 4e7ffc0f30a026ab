"""Parameters of a MuJoCo model that are arrays of mjModel: factors on nominal values, and values in their place."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_dynamics.environments.contexts import Context, parse_number
from pyro_dynamics.environments.mujoco.mujoco_model import Simulator
from pyro_dynamics.errors import UserError


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


@dataclass(frozen=True)
class Value(Physical):
    """A value in place of the nominal one, which is often 0, so that no factor would change it.

    Attributes:
        field: array of mjModel, with a number for each part.
        kind: joint or tendon.
        unit: of the values.
        parts: their names (or indices); all where it is empty.
        most: the largest value.
    """

    field: str
    kind: str
    unit: str
    parts: tuple[str | int, ...] = ()
    most: float = 1e6

    def parse(self, value: Any, name: str) -> float:
        return parse_number(value, name, 0.0, self.most, self.unit, closed=True)

    def check(self, simulator: Simulator) -> None:
        if not simulator.rows(self.field, self.kind, self.parts):
            raise UserError(f"the simulator has no {self.kind}")

    def write(self, simulator: Simulator, value: float) -> None:
        getattr(simulator.model, self.field)[simulator.rows(self.field, self.kind, self.parts)] = value

    def read(self, simulator: Simulator) -> float:
        held = getattr(simulator.model, self.field)[simulator.rows(self.field, self.kind, self.parts)]
        return float(held[0]) if (held == held[0]).all() else math.nan
