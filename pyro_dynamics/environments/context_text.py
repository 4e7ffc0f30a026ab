"""True contexts as text and as numbers: a number, a name, or a number for each of several parameters."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

ROUNDING = 1e-7
"""Share of a number that its text for people may leave out: less than the digits that measured quantities differ in,
and more than what float32 makes of 9.8.
"""


def label(context: Any) -> str:
    """A context as text: 6 for 6.0, back-foot, 1.5,0.8 for several numbers, unknown for None.

    Numbers have six digits, and more where they need them: 101325.4.
    """
    return _text(context, ROUNDING)


def exact(context: Any) -> str:
    """A context as text that reads back as the very same one, for names and for commands."""
    return _text(context, 0.0)


def _text(context: Any, rounding: float) -> str:
    if context is None:
        return "unknown"
    return context if isinstance(context, str) else ",".join(_number(one, rounding) for one in np.atleast_1d(context))


def _number(number: float, rounding: float) -> str:
    texts = (f"{number:.{digits}g}" for digits in range(6, 17))
    return next((text for text in texts if abs(float(text) - number) <= rounding * abs(number)), f"{number:.17g}")


def interval(name: str, unit: str, middle: float, low: float, high: float, level: float = 0.9) -> str:
    """A hidden parameter as it is believed: ``gravity 7.02 m/s^2 (90 %: 6.51 to 7.53)``, more digits of small ones."""
    largest = max(abs(low), abs(high), abs(middle))
    places = 2 if largest == 0 or not math.isfinite(largest) else max(2, 1 - math.floor(math.log10(largest)))
    value = f"{middle:.{places}f}"
    return f"{' '.join(filter(None, (name, value, unit)))} ({100 * level:.0f} %: {low:.{places}f} to {high:.{places}f})"


def columns(contexts: Sequence[Any] | np.ndarray, parameters: int = 1) -> np.ndarray:
    """K numeric contexts as ``[K, P]``, with a column for each of P parameters; NaN where one is not known (None)."""
    unknown = np.full(parameters, np.nan)
    rows = [np.atleast_1d(unknown if context is None else context) for context in contexts]
    return np.array(rows, dtype=float).reshape(len(rows), -1)
