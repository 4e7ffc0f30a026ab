"""The central region of a belief, by which it is compared with the truth."""

import numpy as np

REGION = 0.94
"""Probability of the central region of a belief: ArviZ's own."""
REGION_SD = 1.8808
"""Standard deviations of a Gaussian from its median to either end of that region."""


def central_region(draws: np.ndarray) -> np.ndarray:
    """Lower end, median and upper end of the central 94 % of draws ``[T, S, ...]``: ``[3, T, ...]``."""
    tail = (1 - REGION) / 2
    return np.quantile(draws, [tail, 0.5, 1 - tail], axis=1)
