"""Is the guide near the posterior that it stands for? Pareto smoothed importance sampling, one environment at a time.

Draws of q are weighted by p / q. If q is near p the weights are alike; if q misses a part of p, a few draws that fell
near that part carry all the weight, and the weights' tail is heavy. Its shape k-hat, fitted by a generalised Pareto
distribution, says how heavy (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv:1507.02646; as a test of variational
inference Yao, Vehtari, Simpson and Gelman 2018).

K-hat is one witness of several. Of a q that has the right width and is off by s standard deviations it is low (0.2 at
s = 1.5), as the weights exp(s z - s^2 / 2) are lognormal: there the weighted mean is looked at. And what lies where q
has no draws can show in no weight: see :mod:`pyro_dynamics.diagnostics.posterior.missed_mass`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.prediction.predictive import LEVEL

UNDERFLOW = 700.0
"""Nats below the largest weight, from which on weights are 0 in double precision, and no tail can be fitted to them."""
ALIKE = 1e-3
"""Nats: log ratios that differ by no more than rounding are those of the exact posterior."""
WIDTH = 3.2897
"""Standard deviations of a Gaussian that its central 90 % interval is wide."""
OFF = 0.75
"""Standard deviations of q from which on its mean can be called off; :data:`COVERED` decides whether it is."""
COVERED = 0.77
"""Posterior probability of q's central 90 % interval below which a q that is off is condemned. Of a Gaussian q of the
right width, off by s, the interval covers Phi(1.645 - s) - Phi(-1.645 - s): 0.86 at s = 0.5, 0.77 at 0.9, 0.74 at 1 and
0.56 at 1.5. The estimate out of S draws errs by 0.13 / sqrt S at s = 0.5, 0.45 / sqrt S at 1 and 0.9 / sqrt S at 1.5
(standard deviations, over 200 sets of draws): with the 400 draws of a stream by 0.01, 0.02 and 0.05. One that is 0.5
off is believed and one that is 1 off is not, in 91 of 100 sets or more. A q that is wider than its posterior, as one
that forgets on purpose, may be off by more and still covers it."""
NARROW = 0.85
"""Ratio of standard deviations below which q is overconfident, even where k-hat lets it pass: of a mean-field guide on
a correlated posterior it often does with 1000 draws, while the weighted draws are plainly wider than it is."""
NEARLY = 0.9
"""Share of effective draws above which q is its posterior, but for what no one would notice: k-hat can be above 1
there, where a flat stretch of the weights ends in a few draws that are a little larger."""
NO_MEAN = 1.0
"""K-hat from which on the weights have no finite mean: nothing that is computed from them can be relied upon."""


@dataclass(frozen=True)
class Importance:
    """What the weights p / q of S draws say about q, in one environment.

    Attributes:
        k_hat: shape of the weights' tail; minus infinity where all weights are alike.
        threshold: below this k-hat the weighted draws can be relied upon: min(1 - 1 / log10 S, 0.7).
        effective: effective number of independent draws, 1 / sum of squared normalised weights.
        draws: S.
        shift: of the median under the weights, in standard deviations of q, for each latent dimension ``[d]``.
        spread: width of q's central 90 % interval over that of the weighted draws, ``[d]``; of Gaussians the ratio of
            standard deviations; below 1 where q is too narrow.
        distance: the shift along the direction in which it is largest under q's covariance (Mahalanobis): a latent may
            be rotated, and its axes mean nothing.
        covered: probability, under the weights, of q's central 90 % interval along that direction.

    Medians and intervals stand for means and standard deviations, of which a hundredth of the draws may decide: a
    belief that a change is possible has a few draws of what it would believe then.
    """

    k_hat: float
    threshold: float
    effective: float
    draws: int
    shift: list[float]
    spread: list[float]
    distance: float = 0.0
    covered: float = 0.9

    @property
    def reliable(self) -> bool:
        """Whether k-hat is below its threshold; NaN is not."""
        return self.k_hat < self.threshold

    @property
    def off(self) -> bool:
        """Whether q is off: its mean is, and its 90 % interval covers too little of the posterior."""
        return self.distance > OFF and self.covered < COVERED

    @property
    def alike(self) -> bool:
        """Whether the weights are nearly alike: that condemns nothing, though a few may look like a heavy tail."""
        return self.effective > NEARLY * self.draws and not math.isnan(self.k_hat)

    @property
    def only_wide(self) -> bool:
        """Whether k-hat is too high for want of draws: q lies over p, and is wider than p along every dimension.

        The weights are then bounded, as far as can be seen, and with more draws k-hat falls. Of a Gaussian q in two
        dimensions that is 8 times as wide as its Gaussian p 1000 draws say 1.4, and 4000 say 0.0 (medians).
        """
        return self.k_hat >= self.threshold and min(self.spread) > 1 and not self.off

    @property
    def fault(self) -> str:
        """What is wrong with q: ``not finite``, ``off``, ``narrow``, ``k-hat``, or nothing.

        K-hat condemns by itself only where the weights have no mean, so that nothing can be read from them: between its
        threshold and there shift and width are rough, and still the best that is known.
        """
        if math.isnan(self.k_hat):
            return "not finite"
        if self.alike:
            return ""
        if self.off:
            return "off"
        if min(self.spread) < NARROW:
            return "narrow"
        return "k-hat" if self.k_hat > NO_MEAN and not self.only_wide else ""


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
    ends = [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]
    low, middle, high = np.quantile(draws, ends, axis=0)
    low_p, middle_p, high_p = np.stack([_weighted_quantiles(column, weights, ends) for column in draws.T], 1)
    shift, sd = middle_p - middle, np.maximum(high - low, 1e-300) / WIDTH
    distance, covered = _along_the_shift(weights, draws, log_q, shift)
    return Importance(
        k_hat=k_hat,
        threshold=k_threshold(len(draws)),
        effective=float(1 / np.square(weights).sum()),
        draws=len(draws),
        shift=(shift / sd).tolist(),
        spread=((high - low) / np.maximum(high_p - low_p, 1e-300)).tolist(),
        distance=distance,
        covered=covered,
    )


def _along_the_shift(
    weights: np.ndarray, draws: np.ndarray, log_q: np.ndarray, shift: np.ndarray
) -> tuple[float, float]:
    """How far the centre is off in standard deviations of q, and how much of the posterior q's interval covers there.

    Args:
        weights: normalised, ``[S]``.
        draws: of q, ``[S, d]``.
        log_q: at them, ``[S]``.
        shift: of the median, ``[d]``.
    """
    if not np.isfinite(draws).all() or not np.isfinite(weights).all():
        return math.inf, 0.0
    # Without the outermost tenth: a few draws of a second, improbable hypothesis would make q look wide.
    core = draws[log_q >= np.quantile(log_q, 1 - LEVEL)]
    line = draws @ (np.linalg.pinv(np.atleast_2d(np.cov(core.T)), hermitian=True) @ shift)
    low, middle, high = np.quantile(line, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    if high <= low or np.ptp(weights) == 0:
        return 0.0, LEVEL
    distance = abs(_weighted_quantiles(line, weights, [0.5])[0] - middle) / (high - low) * WIDTH
    return float(distance), float(weights[(line >= low) & (line <= high)].sum())


def _weighted_quantiles(values: np.ndarray, weights: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles of weighted values ``[S]``; equal weights give those of the values themselves."""
    order = values.argsort()
    sums = weights[order].cumsum()
    before = sums - weights[order]
    # As numpy places them: the first value at 0 and the last at 1, weight between.
    places = before / max(1.0 - weights[order][-1], 1e-300)
    return np.interp(levels, places, values[order])


def smoothed_log_weights(log_p: np.ndarray, log_q: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto smoothed log weights ``[S]`` up to a constant, and k-hat.

    Weights that are all alike have no tail to fit (ArviZ raises there): the guide is exact, and k-hat minus infinity;
    where a single one is all there is, k-hat is infinite.
    A weight that is not finite gives NaN: then nothing can be said for the guide.
    """
    ratio = np.asarray(log_p, dtype=float) - np.asarray(log_q, dtype=float)
    if not np.isfinite(ratio).all():
        return np.where(np.isfinite(ratio), ratio, -np.inf) if np.isfinite(ratio).any() else 0 * log_q, math.nan
    if np.ptp(ratio) < ALIKE:
        return np.zeros_like(ratio), -math.inf
    from arviz_stats.base import array_stats  # here, as it takes long

    # ArviZ turns its argument round: it is written for leave-one-out, where the weights are one over a likelihood.
    with np.errstate(all="ignore"):
        try:
            log_weights, k_hat = array_stats.psislw(-ratio)
        except ValueError:  # the largest weights are all the same: they are bounded
            return ratio - ratio.max(), -math.inf
    tail = int(min(len(ratio) / 5, 3 * math.sqrt(len(ratio))))  # as many as ArviZ fits
    if math.isnan(k_hat) or np.sort(ratio)[-tail] < ratio.max() - UNDERFLOW:  # a few draws have all the weight
        return ratio - ratio.max(), math.inf
    return np.asarray(log_weights), float(k_hat)


def k_threshold(draws: int) -> float:
    """The k-hat up to which S draws suffice: min(1 - 1 / log10 S, 0.7) (Vehtari et al. 2024)."""
    return min(1 - 1 / math.log10(draws), 0.7)
