"""The family of environments of a run that was fitted to logged data, without a simulator."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv
from torch import Tensor

from pyro_dynamics.data_files import AnyContext, Count, Finite, read_json, structure
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.environments import Context, Family, Schedule, find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_json
from pyro_dynamics.io.untrusted_folders import require_own_code
from pyro_dynamics.tasks import BoxTask, Task
from pyro_dynamics.tasks.own_task_check import check_own_task

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

    @classmethod
    def of(cls, sources: Sequence[str], data: LoggedData, unit: str, family: str | None) -> "DataDescription":
        """The description of what was read.

        Raises:
            UserError: if the family has states or actions of other sizes, or there are not as many units as columns.
        """
        columns, units = data.column.split(","), unit.split(",")
        if unit and len(units) != len(columns):
            raise UserError(f"--unit {unit} names {len(units)} units for {len(columns)} columns ({data.column})")
        rows = data.transitions
        if family is not None:
            task = find_family(family).make_task()
            rows.require_of(len(data.labels), task.state_dim, task.action_dim, f"{', '.join(sources)} for {family}")
            check_own_task(task, rows.state, rows.action, rows.next_state)
        low, high = (tuple(part.tolist()) for part in data.bounds)
        return cls(
            tuple(sources), data.column, unit, data.labels, low, high, rows.state.shape[1], data.rewarded, family
        )

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
            described = cls(**values | lists | {"labels": labels})
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


def logged_task(state_dim: int, action_dim: int) -> Task:
    """The observation is the state, its change over a step, standardised, the target, and there is no reward."""
    observations, actions = Box(-np.inf, np.inf, (state_dim,)), Box(-1.0, 1.0, (action_dim,))
    return BoxTask(Spaces(observations, actions), _no_reward, names=[f"state {i}" for i in range(state_dim)])


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
            task=partial(logged_task, data.state_dim, len(data.low)) if simulator is None else simulator.task,
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
        if value in self.train:
            return value
        if self.simulator is not None:
            return self.simulator.parse_context(value)
        if not self.numeric:
            return str(value)
        return self._parse(value)

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
