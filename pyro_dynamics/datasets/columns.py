"""What a column of a log holds: numbers, text or something else, and the words for what cannot be used."""

from datetime import date
from numbers import Number
from typing import Any

import numpy as np

from pyro_dynamics.errors import UserError


def as_array(values: Any) -> np.ndarray:
    """Values of any kind as an array: a tensor, a list whose cells may have different lengths, masked cells as gaps."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values  # which numpy does not have
    if np.ma.is_masked(values):
        return (
            values.astype(np.float64).filled(np.nan) if values.dtype.kind in "iufb" else values.astype(object).filled()
        )
    try:
        return np.asarray(values)
    except ValueError:  # numpy makes no array of rows of different lengths
        cells = np.empty(len(values), dtype=object)
        cells[:] = list(values)
        return cells


def plain(array: np.ndarray) -> np.ndarray:
    """A column with one value in each row as numbers or text ``[N]``, if that is what it holds.

    ``[N, 1]`` is ``[N]``; bytes and dates are text, and objects what all of them are. What is neither stays as it is.
    """
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "M":
        gaps, array = np.isnat(array), np.datetime_as_string(array).astype(object)
        array[gaps] = None
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    return _unboxed(array) if array.dtype.kind == "O" and array.ndim == 1 else array


def _unboxed(cells: np.ndarray) -> np.ndarray:
    """Objects as numbers, where a gap is NaN, or as text; as they are where they are not all of one kind."""
    values = [_text_or_itself(cell) for cell in cells]
    if values and all(isinstance(value, str) for value in values):
        return np.array(values)
    if any(isinstance(value, Number) for value in values) and all(
        value is None or isinstance(value, Number | np.bool_) for value in values
    ):
        found = np.array([np.nan if value is None else value for value in values])
        return found if found.dtype.kind != "O" else found.astype(np.float64)  # of decimals and huge numbers
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _text_or_itself(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    if _is_gap(cell):
        return None
    return str(cell) if isinstance(cell, date | np.datetime64) else cell


def _is_gap(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # pandas' own gap is neither true nor false
        return True
    except ValueError:  # an array
        return False


def require_groupable(where: str, name: str, array: np.ndarray, rows: int) -> None:
    """Refuse a column that does not say, by a number or text, which environment each row is of.

    Args:
        where: what holds it, for messages.
        name: of the column.
        array: from :func:`plain`.
        rows: how many there are.

    Raises:
        UserError: saying what it is instead.
    """
    if array.ndim == 0:
        raise UserError(f"{where}: {name} is one value, and not one for each of the {rows} rows")
    if array.ndim > 1:
        raise UserError(
            f"{where}: {name} has the shape {list(array.shape)}, and rows are grouped by one value each, [N]: give "
            "each part of it as a column of its own"
        )
    if len(array) != rows:
        raise UserError(f"{where}: {name} has {len(array)} values, and there are {rows} rows")
    if array.dtype.kind == "O":
        row = next((i for i, cell in enumerate(array) if not isinstance(cell, str)), 0)
        raise UserError(
            f"{where}: {name} is {cell_text(array[row])} in row {row}, and not a number or text as others are"
        )
    if array.dtype.kind not in "iufbU":
        raise UserError(f"{where}: {name} holds {array.dtype}, and rows are grouped by numbers or text")
    bad = np.flatnonzero(~np.isfinite(array)) if array.dtype.kind == "f" else np.zeros(0, int)
    if len(bad):
        raise UserError(f"{where}: {name} is {array[bad[0]]} in row {bad[0]} ({len(bad)} of {rows} rows)")


def steps(where: str, array: np.ndarray) -> np.ndarray:
    """Each row's step within its episode, whole numbers from 0 on ``[N]``; a table may hold them as floats.

    Raises:
        UserError: if it is something else.
    """
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise UserError(f"{where}: step must be whole numbers [N], not {array.dtype} {list(array.shape)}")
    if array.dtype.kind == "f":
        refuse_gaps(where, "step", array)
        parts = array != np.floor(array)
        if parts.any():
            row = int(parts.argmax())
            raise UserError(
                f"{where}: step is {array[row]} in row {row}, and counts in whole numbers from 0: divide a time by the "
                "time of a step, or leave the column out"
            )
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < 2**31:
        raise UserError(f"{where}: steps must count from 0, not from {array.min()} to {array.max()}")
    return array.astype(np.int64)


def episodes(where: str, array: np.ndarray) -> np.ndarray:
    """Which rows are of one episode, numbers or names ``[N]``.

    Raises:
        UserError: if it is something else, or empty in a row.
    """
    refuse_gaps(where, "episode", array)
    if array.ndim != 1 or array.dtype.kind not in "iufbU":
        raise UserError(f"{where}: episode must be numbers or names [N], not {array.dtype} {list(array.shape)}")
    return array


def refuse_gaps(where: str, name: str, array: np.ndarray) -> None:
    """Raises :class:`UserError` naming the first row in which a column is empty."""
    gaps = ~np.isfinite(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    if array.dtype.kind == "O":
        gaps = np.array([cell is None for cell in array.flat], dtype=bool)
    if gaps.any():
        raise UserError(
            f"{where}: {name} is empty in row {int(gaps.argmax())} ({int(gaps.sum())} of {len(array)} rows)"
        )


def out_of_cells(where: str, name: str, cells: np.ndarray) -> np.ndarray:
    """Numbers out of a table's cells, each of which is a number or a list of as many as in the first row."""
    if cells.dtype.kind != "O":
        return cells
    parts: list[np.ndarray] = []
    for row, cell in enumerate(cells):
        try:
            part = np.asarray(cell, dtype=np.float64)  # of None it makes NaN
        except (TypeError, ValueError):
            zeros = "; the file is damaged there: copy or write it anew" if "\0" in str(cell) else ""
            raise UserError(f"{where}: {name} is {cell_text(cell)} in row {row}, and not a number{zeros}") from None
        if parts and part.shape != parts[0].shape:
            sizes = [list(part.shape), list(parts[0].shape)]
            raise UserError(f"{where}: {name} has the shape {sizes[0]} in row {row}, and {sizes[1]} in the first row")
        parts.append(part)
    return np.stack(parts) if parts else np.zeros(0)


def cell_text(cell: Any) -> str:
    """A cell for a message."""
    return "empty" if _is_gap(cell) else repr(cell)[:40]
