"""Logged transitions out of tables: CSV and Parquet files, and pandas' DataFrames."""

import csv
import gzip
import warnings
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from pyro_dynamics.data_files import require_file
from pyro_dynamics.datasets.file_kinds import kind_of, unreadable
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import VECTORS, ColumnNames, log_of_arrays
from pyro_dynamics.datasets.logged_data import grouping_names
from pyro_dynamics.errors import UserError, first_line

SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
TABLES = (*SEPARATORS, ".parquet")
"""Endings of the files that are read here."""


def ending(file: Path) -> str:
    """How the name of a file ends, in small letters, with the ending of what is packed in a ``.gz``."""
    last = file.suffix.lower()
    return file.with_suffix("").suffix.lower() + last if last == ".gz" else last


def read_table(file: Path, group: str | None, names: ColumnNames) -> Log:
    """The rows of a ``.csv``, ``.tsv`` (or such a ``.gz``) or ``.parquet`` file; see :func:`log_of_table`.

    Raises:
        UserError: if it cannot be read, or is not a table of transitions.
    """
    frame = read_parquet(file) if ending(file) == ".parquet" else read_csv(file, group)
    return log_of_table(str(file), frame, group, names)


def log_of_table(where: str, frame: pandas.DataFrame, group: str | None, names: ColumnNames) -> Log:
    """The rows of a table as a log.

    Args:
        where: what the table is called, for messages.
        frame: the table. A cell is a number, text, or (of vectors) a list of numbers; an index with a name is a column.
        group: the column that identifies environments.
        names: what its columns are called.

    Raises:
        UserError: naming the column that is missing or the row that is not what it should be.
    """
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=named) if named else frame
    columns = [str(name).strip() for name in frame.columns]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise UserError(f"{where} has more than one column {', '.join(map(repr, twice))}")
    arrays = {name: _array(frame.iloc[:, i]) for i, name in enumerate(columns)}
    vectors = {name: _vectors(array) for name, array in arrays.items() if name in VECTORS}
    return log_of_arrays(where, arrays | vectors, group, names)


def _array(column: pandas.Series) -> np.ndarray:
    """A column as numpy has it: numbers, or objects where it holds text, lists or gaps."""
    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = pandas.Series(column.to_numpy())  # as numbers, where its categories are numbers
    if isinstance(column.dtype, pandas.SparseDtype):
        column = column.sparse.to_dense()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufbc":
        return column.to_numpy()
    if pandas.api.types.is_bool_dtype(column.dtype) or pandas.api.types.is_numeric_dtype(column.dtype):
        whole = not column.isna().any()  # pandas' own kinds of numbers know gaps
        return column.to_numpy(dtype=column.dtype.numpy_dtype if whole else np.float64, na_value=np.nan)
    return column.to_numpy(dtype=object, na_value=None)


def _vectors(array: np.ndarray) -> np.ndarray:
    """A column of vectors: lists in its cells are left for later, single numbers are vectors of size 1."""
    listed = array.dtype.kind == "O" and len(array) and isinstance(array[0], list | tuple | np.ndarray)
    return array if listed or array.ndim != 1 else array[:, None]


def read_csv(file: Path, group: str | None = None) -> pandas.DataFrame:
    """A table of text, separated by commas, or by tabs in a ``.tsv``.

    Args:
        file: its path.
        group: the column that identifies environments, whose names are taken as they are written.

    Raises:
        UserError: if there is none, or a row has more cells than the first line.
    """
    separator = SEPARATORS[ending(file)]
    with _in_one_line(file):
        require_file(file)
        if kind_of(file) not in (None, ".csv.gz" if _packed(file) else None):
            raise unreadable(file, ending(file), "it is no text")
        with _text(file) as text:
            names = [name.strip() for name in next(csv.reader(text, delimiter=separator), [])]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"{file} has more than one column {', '.join(map(repr, twice))}")
        if len(names) == 1 and ";" in names[0]:
            raise UserError(f"{file} is separated by semicolons: save it with commas, and numbers with points")
        with warnings.catch_warnings(), _text(file) as text:
            warnings.simplefilter("error", ParserWarning)  # of rows that are longer than the first line
            frame = pandas.read_csv(
                text, sep=separator, index_col=False, low_memory=False, on_bad_lines="error", skipinitialspace=True
            )
        if len(frame) and frame.iloc[-1].isna().any():
            _refuse_cut(file, len(names), separator)
        for name in grouping_names(names, group):
            if name in names and frame.dtypes.iloc[names.index(name)].kind in "iuO":
                place = names.index(name)
                frame.isetitem(place, _as_written(file, separator, place, frame.iloc[:, place]))
        return frame


def _as_written(file: Path, separator: str, place: int, read: pandas.Series) -> pandas.Series:
    """A column of names: 007 is not 7, and None or NA is a name among others; as it was read where that is the same."""
    with _text(file) as text:
        (_, cells), *_ = pandas.read_csv(
            text, sep=separator, index_col=False, usecols=[place], dtype=str, keep_default_na=False,
            skipinitialspace=True,
        ).items()  # fmt: skip
    cells = cells.str.strip()
    if read.dtype.kind == "O":
        return cells.where(cells != "", None)
    return cells if (cells != read.astype(str)).any() else read


def _text(file: Path) -> TextIO:
    how: dict[str, Any] = {"mode": "rt", "newline": "", "encoding": "utf-8-sig"}
    return gzip.open(file, **how) if _packed(file) else file.open(**how)


def _packed(file: Path) -> bool:
    return file.suffix.lower() == ".gz"


def _refuse_cut(file: Path, columns: int, separator: str) -> None:
    """Raises :class:`UserError` where the last line ends before its last cell: more rows are missing below it."""
    with _text(file) as text:
        last = deque(text, maxlen=1)
    cells = len(next(csv.reader(last, delimiter=separator), []))
    if 0 < cells < columns:
        raise UserError(
            f"{file} is damaged, or cut off: its last line has {cells} of {columns} cells; copy or write it anew, or "
            "remove that line"
        )


def read_parquet(file: Path, columns: list[str] | None = None) -> pandas.DataFrame:
    """A table of a Parquet file, or some of its columns; what pandas wrote of its index is a column like others.

    Raises:
        UserError: if it cannot be read, or pyarrow is not installed.
    """
    parquet = pyarrow_parquet()
    with _in_one_line(file):
        require_file(file)
        return parquet.read_table(file, columns=columns, partitioning=None).to_pandas(ignore_metadata=True)


def pyarrow_parquet() -> Any:
    """The reader of Parquet files.

    Raises:
        UserError: if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as fault:
        raise UserError(f"pyarrow, which reads Parquet, is not installed ({fault}): pip install pyarrow") from None
    return pyarrow.parquet


@contextmanager
def _in_one_line(file: Path) -> Iterator[None]:
    """What the readers raise, as one line that names the file."""
    try:
        yield
    except EmptyDataError:
        raise UserError(f"{file} is empty: its first line names the columns") from None
    except (ParserError, ParserWarning) as fault:
        why = first_line(fault).removeprefix("Error tokenizing data. C error: ")
        if isinstance(fault, ParserWarning):
            why = "its rows have more cells than the first line has names"
        raise UserError(f"{file} is not a table that can be read: {why}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text in UTF-8") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise unreadable(file, ".csv.gz", first_line(fault)) from None
    except (OSError, ValueError, csv.Error) as fault:
        if ending(file) == ".parquet" and file.is_file() and not getattr(fault, "errno", None):
            raise unreadable(
                file, ".parquet", "its end is missing" if "footer" in str(fault) else first_line(fault)
            ) from None
        raise UserError(f"{file} cannot be read: {first_line(fault)}") from None
