"""Figures of beliefs against the truth, each with a closed form: coverage, disagreement, recovery, intervals."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

LEVEL = 0.9
"""Probability of every interval."""
SHARE, SUSTAINED = 0.9, 5
"""A belief has followed a change when it has made this share of the true move, for so many steps running."""


def interval(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the central intervals of draws ``[n, ...]``, each ``[...]``."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def covered(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Share of the steps and parameters in which the truth lies in the interval, for each stream.

    Args:
        low: lower ends, ``[T, K, P]``.
        high: upper ends, ``[T, K, P]``.
        truth: ``[T, K, P]``, or what broadcasts to it.

    Returns:
        ``[K]``.
    """
    share: np.ndarray = ((low <= truth) & (truth <= high)).mean(axis=(0, 2))
    return share


def squared_z(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How far two beliefs about one environment are apart: (m1 - m2)' (C1 + C2)^-1 (m1 - m2) / d.

    1 in the mean where both are calibrated and independent, whatever the latent's rotation and scale.

    Args:
        first: draws of one belief about each of C environments, ``[n, C, d]``.
        second: of the other, ``[n, C, d]``.

    Returns:
        ``[C]``.
    """
    distance = first.mean(0) - second.mean(0)
    covariance = _covariance(first) + _covariance(second)
    solved = np.linalg.solve(covariance, distance[..., None])[..., 0]
    each: np.ndarray = (distance * solved).mean(-1)
    return each


def _covariance(draws: np.ndarray) -> np.ndarray:
    """``[C, d, d]`` of draws ``[n, C, d]``, with a hair on the diagonal for a belief that is certain of a dimension."""
    centred = draws - draws.mean(0)
    found: np.ndarray = np.einsum("ncd,nce->cde", centred, centred) / (len(draws) - 1)
    return found + 1e-12 * np.eye(draws.shape[-1])


def move_made(decoded: np.ndarray, old: np.ndarray, new: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The share of the true move from ``old`` to ``new`` that a decoded belief has made: 0 at the one, 1 at the other.

    Args:
        decoded: ``[..., P]``.
        old: the true context before the change, ``[P]``.
        new: the true context after it, ``[P]``.
        scale: by which each parameter is measured, such as its trained range, ``[P]``.

    Returns:
        ``[...]``.
    """
    move = (new - old) / scale
    share: np.ndarray = ((decoded - old) / scale) @ move / (move @ move)
    return share


def steps_to_follow(share: np.ndarray) -> int | None:
    """Steps from the change until 90 % of the true move is made for five steps running; None if it never is.

    Args:
        share: of the move, from the first step after the change on, ``[T]``.
    """
    if len(share) < SUSTAINED:
        return None
    runs = np.convolve(share >= SHARE, np.ones(SUSTAINED), mode="valid") > SUSTAINED - 0.5
    return int(runs.argmax()) + 1 if runs.any() else None


def capped(steps: Sequence[int | None], most: int) -> list[int]:
    """Steps, where "never" counts as all the steps that there were: their mean is then that of a bounded time."""
    return [most if one is None else min(one, most) for one in steps]


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean and standard error; NaN for the error of a single value."""
    some = np.asarray(values, dtype=float)
    return float(some.mean()), float(some.std(ddof=1) / np.sqrt(len(some))) if len(some) > 1 else float("nan")


def half_width(values: Sequence[float], level: float = 0.95) -> float | None:
    """Half the width of Student's t interval of the mean over runs; None for a single run."""
    if len(values) < 2:
        return None
    _, error = mean_and_error(values)
    return float(error * stats.t.ppf((1 + level) / 2, len(values) - 1))
