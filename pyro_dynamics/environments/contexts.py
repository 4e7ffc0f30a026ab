"""Contexts: the values of hidden parameters, as numbers, names and text."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from pyro_dynamics.errors import UserError

Context = float | str | tuple[float, ...]
"""The value of a hidden parameter: a number with a unit, the name of a category, or a number for each of several."""
ADDED = 1e-11
"""Numbers whose difference is at most this share of them are one: sums and products of float64."""
FLOAT32 = 1e-6
"""Likewise if one of them is a float32."""
WRITTEN = 10
"""Digits of a number that people and clocks write and float32 holds exactly."""


def numbers(context: Context) -> tuple[float, ...]:
    """The numbers of a numeric context, one for each hidden parameter."""
    assert not isinstance(context, str)
    return context if isinstance(context, tuple) else (float(context),)


def as_context(values: Sequence[float]) -> Context:
    """The inverse of :func:`numbers`."""
    return float(values[0]) if len(values) == 1 else tuple(float(value) for value in values)


def same_context(first: Context, second: Context, sizes: Sequence[float] = ()) -> bool:
    """Whether two contexts are the same, numbers up to rounding errors of the simulator.

    Args:
        first: a context.
        second: another one.
        sizes: of each hidden parameter, by which its rounding errors are judged; 1 where it is not known.
    """
    if isinstance(first, str) or isinstance(second, str):
        return first == second
    one, other = numbers(first), numbers(second)
    if len(one) != len(other):
        return False
    known = sizes or (1.0,) * len(one)
    return all(abs(a - b) <= 1e-6 * max(abs(b), size) for a, b, size in zip(one, other, known, strict=True))


def one_but_for_rounding(first: float, second: float) -> bool:
    """Whether two numbers are one: 0.3 and 0.1 + 0.2 as float64 adds, or 0.3 and what float32 makes of it.

    Numbers far from 0 may well differ by as little (times in seconds since 1970, positions in a country's grid), so
    that what float32 rounded is known by its digits: of a decimal it makes many of them, in 24 bits.
    """
    apart, size = abs(first - second), max(abs(first), abs(second))
    if apart <= ADDED * size:
        return True
    return apart <= FLOAT32 * size and (_of_float32(first) or _of_float32(second))


def _of_float32(value: float) -> bool:
    """Whether a number is a float32, and has more digits than people give one that is."""
    with np.errstate(over="ignore"):
        same = float(np.float32(value)) == value
    return same and len(repr(abs(value)).split("e")[0].replace(".", "").strip("0")) > WRITTEN


def sizes_of(contexts: Sequence[Context]) -> tuple[float, ...]:
    """How far apart the nearest two values of each hidden parameter are; none of contexts that are names.

    Of one that never varies it is the value itself, or 1 of 0.
    """
    rows = [numbers(context) for context in contexts if not isinstance(context, str)]
    return tuple(_smallest_gap(np.unique(column)) for column in zip(*rows, strict=True))


def _smallest_gap(values: np.ndarray) -> float:
    largest, gaps = float(np.abs(values).max()), np.diff(values)
    return float(min(gaps[gaps > 1e-9 * largest], default=largest or 1.0))  # smaller ones are rounding errors


def split_context(value: Any, parameters: Sequence[str]) -> list[Any]:
    """One value for each parameter, from any form of a context.

    A single one is taken as it is, or written ``mass=1.5``. Several are written ``1.5,0.8`` in the order of the
    parameters, or ``mass=1.5,damping=0.8`` in any order, or given as a sequence or as a mapping from their names.

    Raises:
        UserError: if the values are not as many as the parameters, or have other names, or are True or False.
    """
    value = of_python(value)
    values = [of_python(one) for one in _split(value, parameters)]
    for one in values:
        if isinstance(one, bool):
            raise UserError(f"{', '.join(parameters)}: {one} is neither a number nor a name: give 0.0, 1.0 or a name")
    return values


def of_python(value: Any) -> Any:
    """Numbers and lists of Python out of numpy's and torch's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _split(value: Any, parameters: Sequence[str]) -> list[Any]:
    single = len(parameters) == 1
    if single and isinstance(value, str) and "=" in value:  # a name may have commas in it
        name, _, text = value.partition("=")
        if "=" in text:
            raise _misread(value, parameters)
        value = {name.strip(): text.strip()}
    elif isinstance(value, str) and ("," in value or "=" in value) and not single:
        parts = [part.partition("=") for part in value.split(",")]
        named = [name.strip() for name, equals, _ in parts if equals]
        if named and len(set(named)) < len(parts):
            raise _misread(value, parameters)
        value = {name.strip(): text.strip() for name, _, text in parts} if named else [name for name, *_ in parts]
    if isinstance(value, Mapping):
        if set(value) != set(parameters):
            raise _misread(value, parameters)
        return [value[name] for name in parameters]
    if single:
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return [value[0] if listed and len(value) == 1 else value]
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) != len(parameters):
        raise _misread(value, parameters)
    return list(value)


def _misread(value: Any, parameters: Sequence[str]) -> UserError:
    order = ",".join(parameters)
    named = ",".join(f"{name}={number}" for name, number in zip(parameters, (1.5, 0.8, 2, 3, 4), strict=False))
    either = f"{order} in that order, as in " if len(parameters) > 1 else ""
    return UserError(f"a context of {', '.join(parameters)} is written {either}{named}, not {value!r}")


def parse_number(
    value: Any, name: str, low: float = -math.inf, high: float = math.inf, unit: str = "", closed: bool = False
) -> float:
    """``value`` as a finite float within the interval (low, high), or [low, high] where it is ``closed``.

    Raises:
        UserError: if it is not a number or lies outside.
    """
    of = f" of {unit}" if unit else ""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} must be a number{of}, not {value!r}") from None
    within = low <= number <= high if closed else low < number < high
    if not within or not math.isfinite(number):  # NaN compares false and is refused too
        bounds = (
            f"lie between {low:g} and {high:g} {unit}" if math.isfinite(low) or math.isfinite(high) else "be finite"
        )
        raise UserError(f"{name} must {bounds}, not {value}".replace("  ", " ").replace(" ,", ","))
    return number


def grid(**values: Sequence[float]) -> tuple[Context, ...]:
    """Every combination of the values of each parameter, the last parameter changing fastest.

    Example:
        >>> grid(mass=[0.5, 1], damping=[1, 2])
        ((0.5, 1.0), (0.5, 2.0), (1.0, 1.0), (1.0, 2.0))
    """
    return tuple(as_context(combination) for combination in product(*values.values()))


def sample(count: int, seed: int, **ranges: tuple[float, float]) -> tuple[Context, ...]:
    """Contexts drawn uniformly from a range ``(low, high)`` of each parameter; the same for the same seed."""
    low, high = (np.array(ends, dtype=float) for ends in zip(*ranges.values(), strict=True))
    draws = np.random.default_rng(seed).uniform(low, high, (count, len(ranges)))
    digits = [max(6, 4 - math.floor(math.log10(width))) if width > 0 else 15 for width in (high - low).tolist()]
    return tuple(as_context([round(x, n) for x, n in zip(row, digits, strict=True)]) for row in draws.tolist())


def latin(count: int, seed: int, **values: Sequence[float]) -> tuple[Context, ...]:
    """Different combinations of the values of each parameter, in which each value occurs equally often, or nearly so.

    A Latin hypercube over the grid; the same for the same seed.

    Raises:
        UserError: if there are not so many combinations.
    """
    there = math.prod(map(len, values.values()))
    if count > there:
        raise UserError(f"there are only {there} combinations of {', '.join(values)}, not {count}")
    rng = np.random.default_rng(seed)
    rows: list[tuple[float, ...]] = []
    while len(set(rows)) < count:
        columns = [rng.permutation(np.resize(np.array(some, dtype=float), count)) for some in values.values()]
        rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return tuple(as_context(row) for row in rows)


def interpolated(train: Sequence[Context]) -> tuple[Context, ...]:
    """Contexts midway between neighbouring training values, of every parameter and in every combination."""
    return tuple(as_context(row) for row in product(*(np.convolve(v, [0.5, 0.5], "valid") for v in _values(train))))


def extrapolated(train: Sequence[Context], by: float = 0.25) -> tuple[Context, ...]:
    """Contexts outside of the training values by a share of their range, of every parameter, in every combination."""
    ends = [(v[0] - by * (v[-1] - v[0]), v[-1] + by * (v[-1] - v[0])) for v in _values(train)]
    return tuple(as_context(row) for row in product(*ends))


def _values(train: Sequence[Context]) -> list[np.ndarray]:
    """The different training values of each parameter, rising."""
    return [np.unique(column) for column in zip(*map(numbers, train), strict=True)]
