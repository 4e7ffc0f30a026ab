"""Aggregates over runs, with intervals: means as in the paper, and the measures of Agarwal et al. 2021.

The bootstraps have one fixed seed, so that the same rows give the same bytes. An interval needs two runs or more; with
fewer there is none.

References:
    Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import bootstrap, mannwhitneyu, sem, t, trim_mean

LEVEL = 0.95
RESAMPLES = 500
"""Bootstraps of a mean, as many as in the paper."""
STRATIFIED_RESAMPLES = 2000
"""Bootstraps of the measures of Agarwal et al., which need more: each resamples every environment separately."""
SEED = 0

Samples = Sequence[np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval.

    Attributes:
        value: NaN where there is nothing to estimate it from.
        low: lower end of the interval; None where there are too few runs for one.
        high: upper end.
        count: number of runs behind it.
    """

    value: float
    low: float | None = None
    high: float | None = None
    count: int = 0

    def text(self, digits: int = 2) -> str:
        """As in a table: ``0.52 [0.40, 0.61]``, or a dash where there is nothing."""
        if math.isnan(self.value):
            return "-"
        if self.low is None or self.high is None:
            return f"{self.value:z.{digits}f}"
        return f"{self.value:z.{digits}f} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"


def mean(values: Sequence[float] | np.ndarray) -> Estimate:
    """Mean over runs ``[S]`` with the percentile interval of 500 bootstraps, as in the paper; NaN is left out.

    With few runs it is too narrow: of 3, 5 and 10 Gaussian runs it covers the truth in 74, 84 and 89 % of cases, not in
    95 %. :func:`student` has the nominal coverage.
    """
    known = _known(values)
    if len(known) < 2:
        return Estimate(float(known[0]) if len(known) else math.nan, count=len(known))
    return _bootstrap([known], np.mean, RESAMPLES, len(known))


def student(values: Sequence[float] | np.ndarray) -> Estimate:
    """Mean over runs ``[S]`` with Student's t interval, which covers 95 % of Gaussian runs however few they are."""
    known = _known(values)
    if len(known) < 2:
        return mean(known)
    centre, reach = known.mean(), t.ppf((1 + LEVEL) / 2, len(known) - 1) * sem(known)
    return Estimate(float(centre), float(centre - reach), float(centre + reach), len(known))


def band(values: np.ndarray) -> np.ndarray:
    """Mean and its interval for each column of runs ``[S, ...]`` as ``[3, ...]``: mean, low, high.

    Where there are too few runs for an interval low and high are NaN.
    """
    columns = np.reshape(values, (len(values), math.prod(np.shape(values)[1:]))).T
    found = [mean(column) for column in columns]
    ends = [[math.nan if end is None else end for end in (one.value, one.low, one.high)] for one in found]
    return np.reshape(np.array(ends, dtype=float).T, (3, *np.shape(values)[1:]))


def interquartile_mean(samples: Samples) -> Estimate:
    """Mean of the middle half of all runs in all environments, with the interval of a stratified bootstrap.

    Args:
        samples: for each environment its runs' normalised scores. Each environment is resampled separately; that the
            runs of one seed share a model over environments is ignored, as by Agarwal et al.
    """
    known = [_known(sample) for sample in samples]
    count = min(map(len, known), default=0)
    if not count:
        return Estimate(math.nan)

    def statistic(*strata: np.ndarray, axis: int = -1) -> Any:
        return trim_mean(np.concatenate(strata, axis), 0.25, axis=axis)

    if count < 2:
        return Estimate(float(statistic(*known)), count=count)
    return _bootstrap(known, statistic, STRATIFIED_RESAMPLES, count)


def improvement(samples: Samples, others: Samples) -> Estimate:
    """Probability that a run of X is better than a run of Y: U / (m n) by environment, and their mean; ties count half.

    Args:
        samples: for each environment the scores of X.
        others: for each of the same environments those of Y.
    """
    known = [[_known(sample) for sample in side] for side in (samples, others)]
    strata = len(known[0])
    count = min((len(sample) for side in known for sample in side), default=0)
    if not count or len(known[1]) != strata:
        return Estimate(math.nan)

    def statistic(*sides: np.ndarray, axis: int = -1) -> Any:
        pairs = zip(sides[:strata], sides[strata:], strict=True)
        # Only U is used, and not the p-value, which is not defined where all values are equal.
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = [
                mannwhitneyu(x, y, axis=axis, method="asymptotic").statistic / (x.shape[axis] * y.shape[axis])
                for x, y in pairs
            ]
        return np.mean(shares, axis=0)

    if count < 2:
        return Estimate(float(statistic(*known[0], *known[1])), count=count)
    return _bootstrap([*known[0], *known[1]], statistic, STRATIFIED_RESAMPLES, count)


def _known(values: Sequence[float] | np.ndarray) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return array[np.isfinite(array)]


def _bootstrap(samples: Samples, statistic: Callable[..., Any], resamples: int, count: int) -> Estimate:
    """The statistic with its percentile interval; every sample is resampled separately."""
    found = bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        confidence_level=LEVEL,
        method="percentile",
        vectorized=True,
        paired=False,
        random_state=np.random.default_rng(SEED),
    ).confidence_interval
    return Estimate(float(statistic(*samples, axis=-1)), float(found.low), float(found.high), count)
