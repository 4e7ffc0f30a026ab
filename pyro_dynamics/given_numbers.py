"""Vectors, indices and whole numbers as a user gives them: of numpy, torch or Python, of any type of number."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError

Numbers = np.ndarray | Tensor | Sequence[Any] | float
"""What is taken for numbers."""


def as_rows(
    values: Any, size: int | None, what: str, finite: bool = True, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Rows ``[B, size]``; one vector ``[size]`` is one row, and a tensor of the type stays the same object.

    Args:
        values: numbers of any type.
        size: of a row; None if any will do.
        what: they are, for the message.
        finite: whether they must be; beliefs and planners cope with others.
        dtype: of the rows.

    Raises:
        UserError: if they have another size, are no numbers, or are not finite.
    """
    rows = as_floats(values, what, dtype)
    rows = rows[None] if rows.dim() == 1 else rows
    if rows.dim() != 2 or (size is not None and rows.shape[1] != size):
        wanted = "numbers" if size is None else f"{size} numbers"
        raise UserError(f"{what} must be a vector of {wanted}, or rows of such, not of shape {shape_of(values)}")
    if finite and not rows.isfinite().all():
        raise UserError(f"{what} must be finite, not {rows[int((~rows.isfinite().all(1)).int().argmax())].tolist()}")
    return rows


def as_transition(
    state: Any, action: Any, next_state: Any, state_dim: int, action_dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Transitions as float32 rows of one length, ``[B, S]``, ``[B, A]`` and ``[B, S]``.

    Raises:
        UserError: if sizes do not fit, or a number is not finite.
    """
    rows = (
        as_rows(state, state_dim, "state"),
        as_rows(action, action_dim, "action"),
        as_rows(next_state, state_dim, "next_state"),
    )
    if len({len(one) for one in rows}) > 1:
        lengths = " and ".join(str(len(one)) for one in rows)
        raise UserError(f"a transition has a state, an action and a next_state, and there are {lengths} of them")
    return rows


def as_floats(values: Any, what: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers as a tensor of the same shape on the processor: the same object if it is one, and else a copy.

    Raises:
        UserError: if they are something else than real numbers.
    """
    if isinstance(values, Tensor):
        if values.is_complex() or values.is_sparse or values.is_quantized or values.is_meta:
            raise UserError(f"{what} must be real numbers, not a tensor of {values.dtype}")
        return values.to("cpu", dtype)
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)  # what is hidden is not known
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(all="ignore"):  # what leaves float32 is infinite there
            return torch.from_numpy(np.array(array, dtype=np.float64)).to(dtype)
    except (TypeError, ValueError):
        kind = type(values).__name__
        hint = "; env.reset() gives a pair: take its first" if isinstance(values, tuple) and len(values) == 2 else ""
        raise UserError(f"{what} must be a vector of numbers, not this {kind}{hint}") from None


def as_indices(values: Any, rows: int, count: int, what: str = "environment") -> Tensor:
    """Which of ``count`` things each of B rows belongs to, ``[B]`` of torch.long; one number is that of all rows.

    Raises:
        UserError: if they are no whole numbers from 0 to ``count`` - 1, or not as many as rows.
    """
    try:
        found = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
        if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
            raise TypeError
    except (TypeError, ValueError):
        raise UserError(f"{what} must be whole numbers, one for each of {rows} rows, not {values!r}") from None
    found = found.to("cpu", torch.long)
    found = found.expand(rows) if found.dim() == 0 else found
    if found.shape != (rows,):
        raise UserError(f"{what} must have one number for each of {rows} rows, not the shape {list(found.shape)}")
    if rows and not 0 <= int(found.min()) <= int(found.max()) < count:
        raise UserError(f"{what} must lie in 0 to {count - 1}, the environments that there are, not {found.tolist()}")
    return found


def require_generator(generator: Any) -> None:
    """Refuse a source of random numbers that is no torch generator; raises :class:`UserError`."""
    if not isinstance(generator, torch.Generator):
        raise UserError(
            f"generator must be a torch.Generator, such as torch.Generator().manual_seed(0), not {generator!r}"
        )


def whole_number(value: Any, what: str, least: int) -> int:
    """A whole number of Python, numpy or torch.

    Raises:
        UserError: if it is another thing, or below ``least``.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except (TypeError, ValueError):
        raise UserError(f"{what} must be a whole number, not {value!r}") from None
    if number < least:
        raise UserError(f"{what} must be at least {least}, not {number}")
    return number


def real_number(value: Any, what: str) -> float:
    """A number of Python, numpy or torch.

    Raises:
        UserError: if it is another thing.
    """
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"{what} must be a number, not {value!r:.60}") from None


def shape_of(values: Any) -> list[int]:
    """The shape of numbers, for a message."""
    return list(values.shape if hasattr(values, "shape") else np.shape(values))
