"""True contexts as text and as numbers: a number, a name, or a number for each of several parameters."""

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


def columns(contexts: Sequence[Any] | np.ndarray, parameters: int = 1) -> np.ndarray:
    """K numeric contexts as ``[K, P]``, with a column for each of P parameters; NaN where one is not known (None)."""
    unknown = np.full(parameters, np.nan)
    rows = [np.atleast_1d(unknown if context is None else context) for context in contexts]
    return np.array(rows, dtype=float).reshape(len(rows), -1)
