"""The family of environments of a run that was fitted to logged data, without a simulator."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv
from torch import Tensor

from pyro_dynamics.data_files import AnyContext, Count, Finite, read_json, structure
from pyro_dynamics.datasets.family_sizes import require_sizes_of
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.environments import Context, Family, Schedule, find_family
from pyro_dynamics.environments.contexts import of_python
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_json
from pyro_dynamics.io.untrusted_folders import require_own_code
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.own_task_check import check_own_task
from pyro_dynamics.transitions import Transitions

NAME = "logged-data"
"""The family of runs that have no other."""
NO_SIMULATOR = (
    "this run was fitted to logged data and has no simulator: follow logged steps with adapt DIR --replay DATA (in "
    "Python by update), or fit again with the --family that simulates it"
)
FILE = "data.json"


class Described(TypedDict):
    """:class:`DataDescription` as its file has it."""

    sources: list[str]
    column: str
    unit: str
    labels: list[AnyContext]
    low: list[Finite]
    high: list[Finite]
    state_dim: Count
    rewarded: bool
    family: str | None
    angles: NotRequired[list[tuple[Count, Finite, Finite]]]


RANGES = ((-math.pi, math.pi), (0.0, 2 * math.pi), (-180.0, 180.0), (0.0, 360.0))
"""Of logged angles: the first that holds all values."""


@dataclass(frozen=True)
class DataDescription:
    """``data.json`` in the folder of such a run.

    Attributes:
        sources: files and data sets.
        column: what their rows were grouped by, with its ``unit``; several of each have commas between them.
        labels: the environments.
        low: lower bounds of the actions, ``[A]``.
        high: upper bounds, ``[A]``.
        state_dim: size S of an observation.
        rewarded: whether rewards were logged.
        family: the registered family whose task and simulator are used, if any.
        angles: entries of the observation that are angles, each with the ends of its range.
    """

    sources: tuple[str, ...]
    column: str
    unit: str
    labels: tuple[Context, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    state_dim: int
    rewarded: bool
    family: str | None
    angles: tuple[tuple[int, float, float], ...] = ()

    @classmethod
    def of(
        cls, sources: Sequence[str], data: LoggedData, unit: str, family: str | None, angles: Sequence[int] = ()
    ) -> "DataDescription":
        """The description of what was read.

        Raises:
            UserError: if the family has states or actions of other sizes, there are not as many units as columns, or
                an angle is no entry of a state.
        """
        columns, units = data.column.split(","), unit.split(",")
        if unit and len(units) != len(columns):
            raise UserError(f"--unit {unit} names {len(units)} units for {len(columns)} columns ({data.column})")
        rows = data.transitions
        if family is not None:
            task = find_family(family).make_task()
            where = f"{', '.join(sources)} for {family}"
            require_sizes_of(task, rows, len(data.labels), where)
            check_own_task(task, rows.state, rows.action, rows.next_state)
        if angles and family is not None:
            raise UserError(
                f"--angles: which entries are angles is known of the family {family}: leave one of them out"
            )
        low, high = (tuple(part.tolist()) for part in data.bounds)
        size = rows.state.shape[1]
        ranges = tuple(_range_of(entry, rows) for entry in angles)
        return cls(tuple(sources), data.column, unit, data.labels, low, high, size, data.rewarded, family, ranges)

    def save(self, folder: Path) -> None:
        """Write it to the folder of a run."""
        write_json(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "DataDescription | None":
        """That of a run, or None for a run that acted in a simulator.

        Raises:
            UserError: if the file is damaged, or names a family whose code is in the folder.
        """
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            values: Any = structure(read_json(file), Described)
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            labels = tuple(tuple(one) if isinstance(one, list) else one for one in values["labels"])
            angles = tuple(map(tuple, values.get("angles", ())))
            described = cls(**values | lists | {"labels": labels, "angles": angles})
            described._check()
        except (OSError, ValueError, TypeError) as fault:
            raise UserError(f"{file} is damaged ({fault}): fit again") from None
        require_own_code("family", described.family, folder)
        return described

    def _check(self) -> None:
        """Raises ValueError unless the fields go together."""
        columns = len(self.column.split(","))
        kinds = {len(one) if isinstance(one, tuple) else type(one) is str for one in self.labels}
        fit = kinds in ({True}, {False}) or kinds == {columns}
        fit &= self.unit.count(",") in (0, columns - 1)
        if not (fit and self.state_dim and 0 < len(self.low) == len(self.high)):
            raise ValueError("its fields do not go together")


@dataclass(frozen=True)
class Spaces:
    """The sizes of logged observations and actions, in the form of an environment's."""

    observation_space: Box
    action_space: Box


def logged_task(state_dim: int, action_dim: int, angles: Sequence[tuple[int, float, float]] = ()) -> Task:
    """The observation is the state, its change over a step, standardised, the target, and there is no reward."""
    low, high = np.full(state_dim, -np.inf), np.full(state_dim, np.inf)
    for entry, *ends in angles:
        low[entry], high[entry] = ends
    spaces = Spaces(Box(low, high, dtype=np.float64), Box(-1.0, 1.0, (action_dim,)))
    names = [f"state {i}" for i in range(state_dim)]
    return BoxTask(spaces, _no_reward, names=names, angles=[entry for entry, *_ in angles])


def _range_of(entry: int, rows: Transitions) -> tuple[int, float, float]:
    """An angle, with the ends of the range that its values are in."""
    size = rows.state.shape[1]
    if not 0 <= entry < size:
        raise UserError(f"--angles names the entry {entry}: a state has the entries 0 to {size - 1}")
    values = torch.cat([rows.state[:, entry], rows.next_state[:, entry]])
    rounding = 1e-3
    for low, high in RANGES:
        if low - rounding <= values.min() and values.max() <= high + rounding:
            return entry, low, high
    raise UserError(
        f"--angles: the values of state {entry} go from {values.min():.4g} to {values.max():.4g}, which are neither "
        "radians nor degrees of one turn: convert them, or leave it out (the network then takes it as a number)"
    )


def _no_reward(state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
    raise UserError(f"there is no reward to plan for: {NO_SIMULATOR}")


@dataclass(frozen=True)
class LoggedFamily(Family):
    """A family whose environments have logs only, or a registered family's simulator too."""

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    simulator: Family | None = None

    @classmethod
    def of(cls, data: DataDescription) -> "LoggedFamily":
        """The family of a description."""
        simulator = None if data.family is None else find_family(data.family)
        parameter: str | tuple[str, ...] = data.column
        unit: str | tuple[str, ...] = data.unit
        if not isinstance(data.labels[0], float | str):  # a number for each of several columns
            parameter = tuple(data.column.split(","))
            unit = tuple(data.unit.split(",")) if data.unit else ("",) * len(parameter)
        return cls(
            name=NAME if simulator is None else f"{simulator.name}, logged",
            environment="logged data",
            parameter=parameter,
            unit=unit,
            train=data.labels,
            test=data.labels if simulator is None else simulator.test,
            task=partial(logged_task, data.state_dim, len(data.low), data.angles)
            if simulator is None
            else simulator.task,
            description="logged transitions",
            low=data.low,
            high=data.high,
            simulator=simulator,
        )

    @property
    def actions(self) -> Box:
        """The bounds of the actions; where these are the observed extremes nothing plans."""
        return Box(np.array(self.low, np.float32), np.array(self.high, np.float32))

    def parse_context(self, value: Any) -> Context:
        if self.simulator is not None and not (isinstance(value, str | int | float | tuple) and value in self.train):
            return self.simulator.parse_context(value)
        values = self._split(of_python(value))
        return self._parse(values) if self.numeric else str(values[0])

    def make(self, context: Context | Schedule, max_steps: int, **how: Any) -> Any:
        return self._simulator().make(context, max_steps, **how)

    def make_vector(self, contexts: Sequence[Context | Schedule], max_steps: int, **how: Any) -> SyncVectorEnv:
        return self._simulator().make_vector(contexts, max_steps, **how)

    def _simulator(self) -> Family:
        if self.simulator is None:
            raise UserError(NO_SIMULATOR)
        return self.simulator


def require_simulator(family: Family) -> None:
    """Refuse a command that needs a simulator where there are only logs.

    Raises:
        UserError: naming the command that needs none.
    """
    if isinstance(family, LoggedFamily) and family.simulator is None:
        raise UserError(NO_SIMULATOR)
