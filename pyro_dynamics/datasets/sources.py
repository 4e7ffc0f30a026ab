"""Logged data wherever it is: files by their kind, Minari data sets, tables and arrays in memory."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pandas

from pyro_dynamics.datasets.file_kinds import READ
from pyro_dynamics.datasets.hdf5_data import ENDINGS, read_hdf5
from pyro_dynamics.datasets.lerobot_data import is_lerobot, read_lerobot
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.datasets.logged_data import LoggedData, group_logs
from pyro_dynamics.datasets.minari_data import read_minari
from pyro_dynamics.datasets.npz_data import read_npz
from pyro_dynamics.datasets.table_data import TABLES, ending, log_of_table, read_table
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import path_of

Source: TypeAlias = str | os.PathLike[str] | pandas.DataFrame | Mapping[str, Any]
"""A file, a folder or an id; a table; or arrays by name."""
IN_MEMORY = "the data"


def read_data(
    data: Source | Sequence[Source], group: str | None = None, names: ColumnNames | None = None
) -> LoggedData:
    """Logged data, grouped into environments (see :func:`~pyro_dynamics.datasets.logged_data.group_logs`).

    Args:
        data: one source or several. A path ends in ``.npz``, ``.csv``, ``.tsv`` (also ``.gz`` of these), ``.parquet``,
            ``.hdf5`` or ``.h5``, or is the folder of a LeRobot or Minari data set; other text is the id of a Minari
            data set. A DataFrame has the columns of a CSV file, and a mapping the arrays of an ``.npz``:
            ``state [N, S]``, ``action [N, A]``, ``next_state [N, S]``.
        group: the column to group by, or several of quantities, written mass,damping.
        names: what its columns are called, where they have other names.

    Raises:
        UserError: if one of them cannot be read, or they do not go together.
    """
    sources = sources_of(data)
    if not sources:
        raise UserError(f"name a file ({READ}), or a LeRobot or Minari data set")
    called = [IN_MEMORY] if len(sources) == 1 else [f"source {i + 1}" for i in range(len(sources))]
    return group_logs([read_log(one, group, names, name) for one, name in zip(sources, called, strict=True)], group)


def sources_of(data: Source | Sequence[Source]) -> list[Source]:
    """One source or several as a list; a table of polars, pyarrow or Hugging Face is one of pandas."""
    if hasattr(data, "to_pandas"):
        return [data.to_pandas()]
    one = isinstance(data, str | os.PathLike | pandas.DataFrame | Mapping) or not isinstance(data, Iterable)
    return [data] if one else list(data)  # type: ignore[arg-type]


def source_names(data: Source | Sequence[Source]) -> tuple[str, ...]:
    """What each source is called: its path or id, or that it was in memory."""
    return tuple(str(one) if isinstance(one, str | os.PathLike) else IN_MEMORY for one in sources_of(data))


def read_log(
    source: Source, group: str | None = None, names: ColumnNames | None = None, in_memory: str = IN_MEMORY
) -> Log:
    """One source, not grouped yet.

    Args:
        source: what is read.
        group: the column to group by.
        names: what its columns are called.
        in_memory: what it is called if it is a table or arrays in memory.

    Raises:
        UserError: if it cannot be read.
    """
    names = names or ColumnNames()
    if isinstance(source, pandas.DataFrame):
        return log_of_table(in_memory, source, group, names)
    if isinstance(source, Mapping):
        return log_of_arrays(in_memory, source, group, names)
    if not isinstance(source, str | os.PathLike):
        raise UserError(f"logged data is a path, a DataFrame or a dict of arrays, not {type(source).__name__}")
    path = path_of(source)
    if ending(path) in TABLES and (path.is_file() or not path.exists()):
        return read_table(path, group, names)
    if path.suffix.lower() in ENDINGS and path.is_file():
        return read_hdf5(path, group, names)
    if path.is_file():
        return read_npz(path, group, names)
    if path.suffix in (".npz", *ENDINGS):
        raise UserError(f"there is no file {path}")
    if is_lerobot(path):
        return read_lerobot(path, group, names)
    if names.given():
        raise UserError(f"{source} is a Minari data set, whose columns have the names of Minari: leave out the flags")
    return read_minari(str(path))
