"""Contexts as a user gives them to a family: of numpy, torch or Python, as lists or arrays."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from pyro_dynamics.environments.contexts import Context, as_context, of_python, parse_number, split_context
from pyro_dynamics.errors import UserError


def given_contexts(where: str, given: Any, parameters: Sequence[str], units: Sequence[str]) -> tuple[Context, ...]:
    """The contexts as floats, names or tuples of floats, in the given order.

    Args:
        where: for messages, such as ``family sledge: train``.
        given: a sequence or an array: numbers or names; of several parameters rows of as many numbers.
        parameters: the hidden parameters.
        units: of each.

    Raises:
        UserError: if they are none, in words that say why.
    """
    if isinstance(given, Set):
        raise UserError(f"{where} is a set, whose order differs from one run to the next: give a tuple")
    values = of_python(given)
    if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns") or not hasattr(values, "__iter__"):
        raise UserError(f"{where} must be a tuple of contexts, not {given!r}")
    try:
        contexts = tuple(_context(value, parameters, units) for value in values)
    except UserError as fault:
        raise UserError(f"{where}: {fault}") from None
    if len({isinstance(context, str) for context in contexts}) > 1:
        raise UserError(f"{where} has both numbers and names: {', '.join(map(repr, contexts))}")
    return contexts


def _context(given: Any, parameters: Sequence[str], units: Sequence[str]) -> Context:
    value = of_python(given)
    if isinstance(value, str) and len(parameters) == 1:
        return str.__str__(value)  # of a text that is a member of an enumeration too, which prints its name
    values = split_context(value, parameters)
    return as_context([parse_number(v, n, unit=u) for v, n, u in zip(values, parameters, units, strict=True)])
