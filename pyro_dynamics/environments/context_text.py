"""True contexts as text and as numbers: a number, a name, or a number for each of several parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def label(context: Any) -> str:
    """A context as text: 6 for 6.0, back-foot, 1.5,0.8 for several numbers, unknown for None."""
    if context is None:
        return "unknown"
    return context if isinstance(context, str) else ",".join(f"{number:g}" for number in np.atleast_1d(context))


def columns(contexts: Sequence[Any] | np.ndarray, parameters: int = 1) -> np.ndarray:
    """K numeric contexts as ``[K, P]``, with a column for each of P parameters; NaN where one is not known (None)."""
    unknown = np.full(parameters, np.nan)
    rows = [np.atleast_1d(unknown if context is None else context) for context in contexts]
    return np.array(rows, dtype=float).reshape(len(rows), -1)
