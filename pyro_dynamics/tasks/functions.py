"""A user's rewards and terminations: numpy functions in torch, and checks with one-line errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError, first_line

Function = Callable[..., Tensor]
"""Of ``(state [..., S], action [..., A], next_state [..., S])``, giving ``[...]``, for any leading shape."""


def on_numpy(function: Callable[..., Any], batched: bool = True) -> Function:
    """A function of numpy arrays as one of torch tensors, such as an environment's own reward.

    Args:
        function: of ``(state [N, S], action [N, A], next_state [N, S])``, giving ``[N]``.
        batched: false for a function of single vectors ``[S], [A], [S]``, which is called once for each row. A plan
            takes some 10,000 to 1,000,000 rows, at a microsecond or more for each such call: write a batched one.
    """

    def on_tensors(*tensors: Tensor) -> Tensor:
        batch = torch.broadcast_shapes(*(tensor.shape[:-1] for tensor in tensors))
        rows = [tensor.expand(*batch, -1).reshape(-1, tensor.shape[-1]).cpu().numpy() for tensor in tensors]
        hint = "; if it is one of single vectors, say on_numpy(function, batched=False)" if batched else ""
        try:
            values = np.asarray(function(*rows) if batched else [function(*row) for row in zip(*rows, strict=True)])
        except Exception as fault:  # whatever a function of the user's raises
            words = f"raises {type(fault).__name__} ({first_line(fault)}) on {len(rows[0])} rows"
            raise UserError(f"{name_of(function)} {words} of numpy arrays{hint}") from fault
        if values.shape != rows[0].shape[:1]:
            words = f"gives the shape {list(values.shape)} for {len(rows[0])} rows, not [{len(rows[0])}]"
            raise UserError(f"{name_of(function)} {words}{hint}")
        result = torch.from_numpy(values).to(tensors[0].device)
        return (result if values.dtype == bool else result.to(tensors[0].dtype)).reshape(batch)

    # torch.compile would trace numpy's functions as torch's, which are not quite the same.
    called: Function = torch.compiler.disable(on_tensors)
    called.__name__ = name_of(function)
    return called


def evaluate(what: str, function: Function, *arguments: Any) -> Tensor:
    """The value of a user's function, checked for use in planning.

    Args:
        what: ``reward`` or ``terminated``.
        function: of states, actions and next states, and perhaps the context.
        *arguments: state ``[..., S]``, action ``[..., A]``, next state ``[..., S]``, and what else it takes.

    Returns:
        ``[...]``: real numbers of the states' type for a reward, booleans for a termination.

    Raises:
        UserError: if it raises, or gives another shape or type, or a reward that is not finite.
    """
    state, action, next_state = arguments[:3]
    shapes = f"state {list(state.shape)}, action {list(action.shape)} and next_state {list(next_state.shape)}"
    before = [one.clone() for one in (state, action, next_state)]
    try:
        value = function(*arguments)
    except UserError:
        raise
    except Exception as fault:  # whatever a function of the user's raises
        raised = f"{type(fault).__name__} ({first_line(fault)})"
        raise UserError(
            f"the {what} function raises {raised} on torch tensors {shapes}: write it in torch and index with "
            "[..., i], or wrap a numpy function in pyro_dynamics.tasks.on_numpy"
        ) from fault
    if not all(torch.equal(*pair) for pair in zip(before, (state, action, next_state), strict=True)):
        raise UserError(f"the {what} function changes what it is given: write x.abs(), not x.abs_() or x[...] = ...")
    batch = state.shape[:-1]
    dtype = torch.bool if what == "terminated" else state.dtype
    if not isinstance(value, Tensor):
        raise UserError(
            f"the {what} function gives a {type(value).__name__}, not a torch tensor {list(batch)}: a numpy function "
            "goes into pyro_dynamics.tasks.on_numpy"
        )
    if value.shape != batch:
        raise UserError(
            f"the {what} function gives the shape {list(value.shape)} for {shapes}, not {list(batch)}: index with "
            "[..., i] and reduce over the last axis alone, as in .sum(-1); a numpy function goes into "
            "pyro_dynamics.tasks.on_numpy"
        )
    if value.dtype != dtype:
        cure = "compare with > or <" if dtype == torch.bool else f"add .to({state.dtype})"
        raise UserError(f"the {what} function gives {value.dtype}, not {dtype}: {cure}")
    if not value.isfinite().all():
        row = int((~value.isfinite()).flatten().int().argmax())
        raise UserError(
            f"the {what} function gives {float(value.flatten()[row])} for the state "
            f"{_rounded(state, row)}, action {_rounded(action, row)} and next_state {_rounded(next_state, row)}"
        )
    return value


def name_of(function: Any) -> str:
    """The name of a function, for messages."""
    return getattr(function, "__name__", type(function).__name__)


def _rounded(values: Tensor, row: int) -> list[float]:
    """One row of ``[..., n]`` with few digits."""
    return [float(f"{value:.3g}") for value in values.flatten(0, -2)[row].tolist()]
