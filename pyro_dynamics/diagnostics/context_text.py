"""True contexts in words and as numbers: a number, a name, or a number for each of several parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def label(context: Any) -> str:
    """A context as people write it: 6 for 6.0, back-foot for back-foot, 1.5,0.8 for several numbers."""
    return context if isinstance(context, str) else ",".join(f"{number:g}" for number in np.atleast_1d(context))


def columns(contexts: Sequence[Any] | np.ndarray) -> np.ndarray:
    """K numeric contexts as ``[K, P]``, with a column for each of P parameters."""
    return np.array(list(contexts), dtype=float).reshape(len(contexts), -1)
