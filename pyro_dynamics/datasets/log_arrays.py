"""Arrays by name as a log: which of them is what, checked, and the next states derived where there are none."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyro_dynamics.datasets.automatic_resets import without_resets
from pyro_dynamics.datasets.columns import as_array, episodes, out_of_cells, plain, require_groupable, steps
from pyro_dynamics.datasets.continuity import fitted_together
from pyro_dynamics.datasets.environments_of_rows import (
    alternation,
    changes_of_group,
    ends_of_beginnings,
    episodes_of_ends,
)
from pyro_dynamics.datasets.episodes_of_rows import cut_at_ends, separate_returning
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.logged_data import grouping_names
from pyro_dynamics.datasets.next_states import with_next_states
from pyro_dynamics.datasets.other_names import by_other_names, ends_of_episodes, named_ends, only_terminations
from pyro_dynamics.datasets.padding import without_padding
from pyro_dynamics.datasets.time_stamps import steps_of_times
from pyro_dynamics.errors import UserError

VECTORS = ("state", "action", "next_state")
RESERVED = (*VECTORS, "reward", "step", "episode")
"""Names with a meaning of their own; every other array with a value for each row can group."""


@dataclass(frozen=True)
class ColumnNames:
    """How the data calls its columns, where it is not by the names of this package; several are written x,v.

    As in a CSV a name that has a comma itself stands in double quotes: "position, left",v.
    """

    state: str | None = None
    """Columns of the state, such as x,v; by default `state`, or state_0, state_1 and so on."""
    action: str | None = None
    """Columns of the action; by default `action`, or action_0, action_1 and so on."""
    next_state: str | None = None
    """Columns of the next state. Where there are none, it is the state of the next row of the same episode."""
    reward: str | None = None
    """Column of the reward; by default `reward`, which need not be there."""
    episode: str | None = None
    """Column that says which rows are one episode; by default `episode`, which need not be there."""
    step: str | None = None
    """Column of the step within the episode; by default `step`, which need not be there."""

    def given(self) -> dict[str, list[str]]:
        """The columns of each part that is named here."""
        parts = {name: getattr(self, name) for name in RESERVED if getattr(self, name)}
        return {name: [column.strip() for column in next(csv.reader([text]))] for name, text in parts.items()}


def log_of_arrays(where: str, arrays: Mapping[str, Any], group: str | None, names: ColumnNames) -> Log:
    """One log out of arrays by name, as an ``.npz``, a table's columns, or a dict in memory have them.

    Args:
        where: what holds them, for messages.
        arrays: ``state [N, S]``, ``action [N, A]`` and so on; or columns ``[N]`` of them, ``state_0`` and so on.
        group: the column that identifies environments, or several with commas between them.
        names: what the parts are called.

    Raises:
        UserError: if an array is missing, not of numbers, of a wrong shape or length, or not finite.
    """
    columns = {str(name): as_array(array) for name, array in arrays.items()}
    columns = by_other_names(columns, names.given()) | columns
    found = {name: columns[name] for name in columns if name in RESERVED} | _gathered(where, columns, names)
    found = {name: array if name in VECTORS else plain(array) for name, array in found.items()}
    given = bool({"episode", "step"} & set(found))
    notes, changes = _find_episodes(where, columns, found, _wanted(columns, group))
    derived = "next_state" not in found and bool({"episode", "step"} & set(found))
    missing = [name for name in VECTORS if name not in found and not (derived and name == "next_state")]
    if missing:
        raise UserError(f"{where} has no {_missing(missing, columns)}")
    numbers: dict[str, Any] = {
        name: _numbers(where, name, found[name], axes)
        for name, axes in (("state", 2), ("action", 2), ("next_state", 2), ("reward", 1))
        if name in found
    }
    rows = len(found["state"])
    refuse_other_lengths(where, rows, found)
    next_state = numbers.get("next_state", numbers["state"])
    if numbers["state"].shape != next_state.shape:
        shapes = list(numbers["state"].shape), list(next_state.shape)
        raise UserError(f"{where}: state and next_state have the shapes {shapes[0]} and {shapes[1]}")
    if (
        "next_state" in numbers
        and rows > 1
        and (next_state == numbers["state"]).all()
        and np.ptp(numbers["state"], axis=0).any()
    ):
        raise UserError(
            f"{where}: next_state is the state itself in all {rows} rows: does the environment write over its "
            "observations? log a copy of each, or leave next_state out: then it is the state of the next row"
        )
    step = steps(where, found["step"]) if "step" in found else None
    episode = episodes(where, found["episode"]) if "episode" in found else None
    used = {name for part in names.given().values() for name in part} | set(found)
    others = _groupable(where, columns, group, rows, used)
    log = Log(where, numbers["state"], numbers["action"], next_state, numbers.get("reward"), step, episode, others)
    grouping = _grouping(others, group)
    log = separate_returning(log, grouping, derived)
    if given:
        log = _ended(log, columns, grouping, derived)
    changes = changes_of_group(log, grouping) if changes is None else changes
    log = replace(log, notes=(*notes, *log.notes, *_words(where, changes, derived)))
    known = step is not None or episode is not None
    for without in (without_padding, without_resets) if known else ():
        log, kept = without(log, grouping, derived)
        grouping, changes = [column[kept] for column in grouping], changes[kept]
    log = replace(log, notes=(*log.notes, *alternation(log, grouping, derived)))
    if derived:
        log = steps_of_times(log, grouping) if log.step is None else log
        return with_next_states(log, grouping, changes)
    return fitted_together(log, grouping, changes) if known else log


def _words(where: str, changes: np.ndarray, derived: bool) -> list[str]:
    """A note where the column to group by changes within episodes."""
    if not changes.any():
        return []
    lost = ", and the last one before a change, whose next state has another, is left out" if derived else ""
    return [
        f"{where}: the column to group by changes within an episode in {int(changes.sum())} places, first after row "
        f"{int(changes.argmax())}: each row is of the environment that it names{lost}"
    ]


def _find_episodes(
    where: str, columns: Mapping[str, np.ndarray], found: dict[str, np.ndarray], groups: list[str]
) -> tuple[list[str], np.ndarray | None]:
    """Adds the episode of each row, by the rows that end one, where nothing else says it.

    Returns:
        What stays unknown, in notes; and after which rows a group changes within an episode, ``[N]``, where the ends
        of episodes say it.
    """
    if "state" not in found or not found["state"].ndim or {"episode", "step"} & set(found):
        return [], None
    rows = len(found["state"])
    ends = ends_of_episodes(where, columns, rows)
    if ends is None:
        return [], None
    grouping = [column for column in (plain(columns[name]) for name in groups) if column.shape == (rows,)]
    begun = ends_of_beginnings(found["state"], ends, grouping)
    found["episode"], changes, alternate = episodes_of_ends(ends if begun is None else begun, grouping)
    called = " or ".join(named_ends(columns))
    notes = [] if begun is None else [f"{where}: {called} is true where an episode begins, and not where one ends"]
    notes += [f"{where}: rows of several environments alternate: each goes with those of its own"] * alternate
    return [*notes, *_without_limits(where, columns, "next_state" not in found)], changes


def _without_limits(where: str, columns: Mapping[str, np.ndarray], derived: bool) -> list[str]:
    """A note where next states are derived, and nothing says where a time limit ended an episode."""
    ended = only_terminations(columns)
    if not derived or ended is None:
        return []
    return [
        f"{where}: {ended} is there, and no column timeouts or truncated: where a time limit ended an episode, its "
        "last row leads into the next one"
    ]


def _ended(log: Log, columns: Mapping[str, np.ndarray], grouping: list[np.ndarray], derived: bool) -> Log:
    """The log with the ends of episodes that columns name, where ``episode`` or ``step`` continues there."""
    try:
        ends = ends_of_episodes(log.name, columns, len(log))
    except UserError:  # what ends an episode is said already, and a column of that name may be anything
        return log
    if ends is None:
        return log
    cut = cut_at_ends(log, grouping, ends, " or ".join(named_ends(columns)))
    if cut.step is log.step and cut.episode is log.episode:
        return cut
    return replace(cut, notes=(*cut.notes, *_without_limits(log.name, columns, derived)))


def listed(columns: Iterable[str]) -> str:
    """Names of columns for a message: the first ones, where there are many or long ones."""
    names = [name if len(name) < 40 else f"{name[:37]}..." for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _missing(missing: list[str], columns: Mapping[str, np.ndarray]) -> str:
    """What is missing, what is there, and what to do."""
    there = listed(columns) or "nothing"
    if missing == ["next_state"]:
        return (
            f"next_state: it has {there}; give it, or a column episode or step, by which the next row of the same "
            "episode is known"
        )
    flags = " ".join(f"--{name.replace('_', '-')} COLUMN,COLUMN" for name in missing)
    return f"array {', '.join(missing)}: it has {there}; other names are given by {flags}, or columns= in Python"


def _gathered(where: str, columns: Mapping[str, np.ndarray], names: ColumnNames) -> dict[str, np.ndarray]:
    """The parts that are spread over columns, or named by the user."""
    found: dict[str, np.ndarray] = {}
    for part, wanted in names.given().items():
        absent = [name for name in wanted if name not in columns]
        if absent:
            raise UserError(f"{where} has no column {', '.join(map(repr, absent))}: it has {listed(columns)}")
        if part not in VECTORS and len(wanted) > 1:
            raise UserError(f"--{part} names one column, not {', '.join(wanted)}")
        found[part] = _side_by_side(where, columns, wanted) if part in VECTORS else columns[wanted[0]]
    for part in VECTORS:
        numbered = [name for name in columns if name.startswith(f"{part}_") and name[len(part) + 1 :].isdecimal()]
        if part in found or not numbered:
            continue
        if part in columns:
            flag = part.replace("_", "-")
            raise UserError(
                f"{where} has {part}, and {listed(numbered)} too: say which of them it is by --{flag}, as in "
                f"--{flag} {','.join(numbered[:3])}, or rename one (columns= in Python)"
            )
        wanted = [f"{part}_{i}" for i in range(len(numbered))]
        absent = [name for name in wanted if name not in columns]
        if absent:
            raise UserError(f"{where} has {listed(numbered)}, and no {absent[0]}")
        found[part] = _side_by_side(where, columns, wanted)
    return found


def _side_by_side(where: str, columns: Mapping[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Columns, each a number or a vector a row, as one ``[N, size]``."""
    arrays = {name: out_of_cells(where, name, columns[name]) for name in names}
    parts = [_numbers(where, name, array, 2 if array.ndim == 2 else 1) for name, array in arrays.items()]
    return np.concatenate([part[:, None] if part.ndim == 1 else part for part in parts], axis=1)


def _groupable(
    where: str, columns: dict[str, np.ndarray], group: str | None, rows: int, used: Iterable[str]
) -> dict[str, np.ndarray]:
    """The columns of numbers and of text, one value in each row; those to group by must be such, and may be parts."""
    wanted = _wanted(columns, group)
    found: dict[str, np.ndarray] = {}
    for name in columns:
        if name in wanted or name not in used:
            array = plain(columns[name])
            if name in wanted:
                require_groupable(where, name, array, rows)
            if array.dtype.kind == "m":  # no quantity to group by, and a time of the row
                array = array / np.timedelta64(1, "s")
            if array.shape == (rows,) and array.dtype.kind in "iufbU":
                found[name] = array
    return found


def _grouping(columns: Mapping[str, np.ndarray], group: str | None) -> list[np.ndarray]:
    """The columns that environments differ in, as far as they are there."""
    return [columns[name] for name in _wanted(columns, group)]


def _wanted(columns: Mapping[str, np.ndarray], group: str | None) -> list[str]:
    """The names of those."""
    return [name for name in grouping_names(columns, group) if name in columns]


def refuse_other_lengths(where: str, rows: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Raises :class:`UserError` unless every array has a value for each row, and there are rows."""
    other = [f"{name} {len(array)}" for name, array in arrays.items() if array.ndim and len(array) != rows]
    if other:
        raise UserError(f"{where}: the arrays have different lengths: state {rows}, {', '.join(other)}")
    if not rows:
        raise UserError(f"{where} holds no transitions")


def _numbers(where: str, name: str, array: np.ndarray, axes: int) -> np.ndarray:
    array = out_of_cells(where, name, array)
    if array.dtype.kind not in "fiub":
        raise UserError(f"{where}: {name} must be numbers, not {array.dtype}")
    if array.ndim != axes or 0 in array.shape[1:]:
        wanted = "[N]" if axes == 1 else "[N, size], with size 1 for a single number"
        raise UserError(f"{where}: {name} has the shape {list(array.shape)}, and must be {wanted}")
    refuse_not_finite(where, name, array)
    return array.astype(np.float64)


def refuse_not_finite(where: str, name: str, array: np.ndarray) -> None:
    """Raises :class:`UserError` naming row and column of the first value that is NaN or infinite as a float32."""
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(array.astype(np.float32)))
    if len(bad):
        column = f", column {bad[0][1]}" if array.ndim == 2 else ""
        count = len(np.unique(bad[:, 0]))
        value = array[tuple(bad[0])]
        raise UserError(
            f"{where}: {name} is {value} in row {bad[0][0]}{column} ({count} of {len(array)} rows are not finite)"
        )
