"""Names of D4RL and Gymnasium for the parts of a log, which are taken where it has none of this package's."""

import re
from collections.abc import Collection, Mapping

import numpy as np

from pyro_dynamics.datasets.columns import plain, refuse_gaps
from pyro_dynamics.errors import UserError

NAMES = {"observations": "state", "actions": "action", "next_observations": "next_state", "rewards": "reward"}
"""Of an array ``[N, size]``, or of its columns: observations_0, observations_1 and so on."""
TERMINATIONS = ("terminals", "terminations", "terminated")
TRUNCATIONS = ("timeouts", "truncations", "truncated")
ENDS = ("dones", "done")
"""Of either: Gym had no other name for them."""


def by_other_names(columns: Mapping[str, np.ndarray], given: Collection[str]) -> dict[str, np.ndarray]:
    """Those of the columns that have another name for a part, under this package's name for it.

    Args:
        columns: all of them.
        given: parts whose columns the user has named.
    """
    found: dict[str, np.ndarray] = {}
    for name, array in columns.items():
        stem, number = re.fullmatch(r"(.*?)(_\d+)?", name, re.DOTALL).groups()  # type: ignore[union-attr]
        part = NAMES.get(stem)
        own = re.compile(rf"{part}(_\d+)?")
        if part is not None and part not in given and not any(map(own.fullmatch, columns)):
            found[part + (number or "")] = array
    return found


def ends_of_episodes(where: str, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray | None:
    """Which rows end an episode, ``[N]``; None where nothing says which do.

    Raises:
        UserError: if a column of ends is no number for each row.
    """
    ends = np.zeros(rows, dtype=bool)
    there = named_ends(columns)
    for name in there:
        column = plain(columns[name])
        if column.shape != (rows,) or column.dtype.kind not in "iufb":
            raise UserError(
                f"{where}: {name} is {column.dtype} {list(column.shape)}, and must be true or false [{rows}]"
            )
        refuse_gaps(where, name, column)  # NaN would be true
        ends |= column.astype(bool)
    return ends if there else None


def named_ends(columns: Collection[str]) -> list[str]:
    """The columns that say which rows end an episode."""
    return [name for name in (*TERMINATIONS, *TRUNCATIONS, *ENDS) if name in columns]


def only_terminations(columns: Collection[str]) -> str | None:
    """The column that says which episodes a failure ended, where none says which ones a time limit did."""
    there = [name for name in TERMINATIONS if name in columns]
    return there[0] if there and not any(name in columns for name in (*TRUNCATIONS, *ENDS)) else None
