"""Is the guide near the posterior that it stands for? Pareto smoothed importance sampling, one environment at a time.

Draws of q are weighted by p / q. If q is near p the weights are alike; if q misses a part of p, a few draws that fell
near that part carry all the weight, and the weights' tail is heavy. Its shape k-hat, fitted by a generalised Pareto
distribution, says how heavy (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv:1507.02646; as a test of variational
inference Yao, Vehtari, Simpson and Gelman 2018).
"""

import math
from dataclasses import dataclass

import numpy as np

ALIKE = 1e-3
"""Nats: log ratios that differ by no more than rounding are those of the exact posterior."""


@dataclass(frozen=True)
class Importance:
    """What the weights p / q of S draws say about q, in one environment.

    Attributes:
        k_hat: shape of the weights' tail; minus infinity where all weights are alike.
        threshold: below this k-hat the weighted draws can be relied upon: min(1 - 1 / log10 S, 0.7).
        effective: effective number of independent draws, 1 / sum of squared normalised weights.
        draws: S.
        shift: of the mean under the weights, in standard deviations of q, for each latent dimension ``[d]``.
        spread: standard deviation of q over that of the weighted draws, ``[d]``; below 1 where q is too narrow.
    """

    k_hat: float
    threshold: float
    effective: float
    draws: int
    shift: list[float]
    spread: list[float]

    @property
    def reliable(self) -> bool:
        """Whether k-hat is below its threshold; NaN is not."""
        return self.k_hat < self.threshold

    @property
    def only_wide(self) -> bool:
        """Whether k-hat is too high for want of draws: q lies over p, and is wider than p along every dimension.

        The weights are then bounded, as far as can be seen, and with more draws k-hat falls. Of a Gaussian q in two
        dimensions that is 8 times as wide as its Gaussian p 1000 draws say 1.4, and 4000 say 0.0 (medians).
        """
        return self.k_hat >= self.threshold and min(self.spread) > 1 and max(map(abs, self.shift)) <= 1


def importance(log_p: np.ndarray, log_q: np.ndarray, draws: np.ndarray) -> Importance:
    """Weigh draws of a guide by the model.

    Args:
        log_p: log p(e, data) up to a constant, at draws from q, ``[S]``, in nats.
        log_q: log q(e) at the same draws, ``[S]``.
        draws: the draws, ``[S, d]``.

    Raises:
        ValueError: if there are fewer than 25 draws, which are too few for a tail.
    """
    if len(log_p) < 25:
        raise ValueError(f"k-hat needs at least 25 draws, not {len(log_p)}")
    log_weights, k_hat = smoothed_log_weights(log_p, log_q)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean, sd = draws.mean(0), draws.std(0)
    weighted_mean = weights @ draws
    weighted_sd = np.sqrt(np.maximum(weights @ np.square(draws - weighted_mean), 0))
    return Importance(
        k_hat=k_hat,
        threshold=k_threshold(len(draws)),
        effective=float(1 / np.square(weights).sum()),
        draws=len(draws),
        shift=((weighted_mean - mean) / np.maximum(sd, 1e-300)).tolist(),
        spread=(sd / np.maximum(weighted_sd, 1e-300)).tolist(),
    )


def smoothed_log_weights(log_p: np.ndarray, log_q: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto smoothed log weights ``[S]`` up to a constant, and k-hat.

    Weights that are all alike have no tail to fit (ArviZ raises there): the guide is exact, and k-hat minus infinity.
    A weight that is not finite gives NaN: then nothing can be said for the guide.
    """
    ratio = np.asarray(log_p, dtype=float) - np.asarray(log_q, dtype=float)
    if not np.isfinite(ratio).all():
        return np.where(np.isfinite(ratio), ratio, -np.inf) if np.isfinite(ratio).any() else 0 * log_q, math.nan
    if np.ptp(ratio) < ALIKE:
        return np.zeros_like(ratio), -math.inf
    from arviz_stats.base import array_stats  # here, as it takes long

    # ArviZ turns its argument round: it is written for leave-one-out, where the weights are one over a likelihood.
    log_weights, k_hat = array_stats.psislw(-ratio)
    return np.asarray(log_weights), float(k_hat)


def k_threshold(draws: int) -> float:
    """The k-hat up to which S draws suffice: min(1 - 1 / log10 S, 0.7) (Vehtari et al. 2024)."""
    return min(1 - 1 / math.log10(draws), 0.7)
