"""What a stream of steps shows of the belief about one environment: a check for each kind of fault, with reasons.

:mod:`pyro_dynamics.diagnostics.verdict` makes one word out of them.

The thresholds were chosen by hand, with the reasons below, and looked at on streams of two pendulum runs and one
HalfCheetah run: in what they do not see, and in what they see by chance, other models will differ.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch

from pyro_dynamics.diagnostics.prediction.predictive import coverage

RECENT = 50
"""Steps that "recent" means: enough for a coverage to +- 0.04, and about what it takes to find a context that does not
change (50 to 100 steps)."""
SEPARATION = 2.0
"""Standard deviations: where even the two trained latents that are farthest apart are nearer than this, a third of
their posteriors overlaps, and the network can hardly have learned anything from them."""
STILL_PRIOR = 0.9
"""Share of the prior's standard deviation: having learned but a quarter of what the prior is worth gives less."""
WIDE = 2.0
"""Ratio of widths above which a belief or guide that covers its posterior is called over-dispersed: it wastes what the
data say, which is safe, and which k-hat does not see."""
LOW_COVERAGE = 0.75
"""Share of targets inside 90 % intervals: 50 independent steps come below it once in a thousand times."""
NATS_BELOW = 1.0
"""Nats for each target dimension: errors that were as large as the predicted noise are then 1.7 times as large."""
JUMP = 3.0
"""Standard deviations: the mean of a belief that is right moves, from now to ever after, by about one of those that it
has now, for they say how far off it may be. In 11 streams without a change the largest was 2.4."""
FAR = 1.5
"""Distances between neighbouring trained latents: half of one is the most that a belief between them needs, and one
outside them is an extrapolation that has been seen to work."""
SURELY = 2.0
"""Standard deviations by which a belief must be away from all trained latents before it counts as outside."""


@dataclass(frozen=True)
class Stream:
    """A belief about one environment step by step, and what the model was trained on.

    Attributes:
        mean: of the belief after each of N steps, ``[N, d]``.
        scale: its standard deviation, ``[N, d]``.
        log_likelihood: of what was observed, under the belief before it was seen, in nats, ``[N]``.
        pit: the prediction's CDF at what was observed, ``[N, T]``; see
            :mod:`pyro_dynamics.diagnostics.prediction.predictive`.
        trained_mean: latent means of the training environments, ``[K, d]``.
        trained_scale: their standard deviations, ``[K, d]``.
        trained_log_likelihood: mean log-likelihood that the model reached on held-out episodes of training, in nats
            for each transition, or None where it is not known.
        prior_scale: standard deviation of the belief before the first step, a number or ``[d]``.
    """

    mean: np.ndarray
    scale: np.ndarray
    log_likelihood: np.ndarray
    pit: np.ndarray
    trained_mean: np.ndarray
    trained_scale: np.ndarray
    trained_log_likelihood: float | None = None
    prior_scale: float | np.ndarray = 1.0

    @property
    def steps(self) -> int:
        """The number N of steps."""
        return len(self.pit)

    @property
    def inside(self) -> np.ndarray:
        """Share of the targets inside their 90 % intervals, ``[N]``."""
        return coverage(torch.as_tensor(self.pit)).numpy()

    @property
    def recent_coverage(self) -> float:
        """Recent share of the targets inside their 90 % intervals."""
        return float(self.inside[-RECENT:].mean())

    @property
    def jump(self) -> float:
        """How far the mean was at most from where it stood before the recent steps, in the worst dimension.

        In units of the standard deviation that the belief had there.
        """
        begin = max(self.steps - 1 - RECENT, 0)
        return float((np.abs(self.mean[begin:] - self.mean[begin]) / self.scale[begin]).max())

    @property
    def spacing(self) -> float:
        """The largest distance of a trained latent from its nearest neighbour, ``inf`` for a single one."""
        gaps = np.linalg.norm(self.trained_mean[:, None] - self.trained_mean, axis=-1)
        np.fill_diagonal(gaps, np.inf)
        return float(gaps.min(1).max())

    @property
    def margin(self) -> float:
        """By how many nats a log-likelihood must be lower to be much worse."""
        return NATS_BELOW * self.pit.shape[1]


def indistinct(stream: Stream) -> str | None:
    """Whether the environments that were trained on do not differ in the latent, which then means nothing."""
    latents = list(zip(stream.trained_mean, stream.trained_scale, strict=True))
    apart = max((_distance(one, other) for one, other in combinations(latents, 2)), default=np.inf)
    if apart >= SEPARATION:
        return None
    return (
        f"the two trained latents that are farthest apart lie {apart:.1f} of their own standard deviations from each "
        f"other, and {SEPARATION:g} are needed to distinguish any two environments"
    )


def still_prior(stream: Stream) -> str | None:
    """Whether the belief stays the prior."""
    narrowest = float((stream.scale[-RECENT:] / stream.prior_scale).min())
    if stream.steps < RECENT or narrowest <= STILL_PRIOR:
        return None
    return (
        f"after {stream.steps} steps the belief's standard deviation is still {narrowest:.2f} of the prior's or more "
        "in every dimension: the network does not use the latent"
    )


def out_of_range(stream: Stream) -> str | None:
    """Whether the belief lies where the network was never trained."""
    if len(stream.trained_mean) < 2:
        return None
    here = stream.mean[-1], stream.scale[-1]
    latents = zip(stream.trained_mean, stream.trained_scale, strict=True)
    far = float(np.linalg.norm(stream.trained_mean - here[0], axis=1).min()) / stream.spacing
    surely = min(_distance(here, latent) for latent in latents)
    if far <= FAR or surely <= SURELY:
        return None
    why = (
        f"the nearest trained latent is {far:.1f} times as far away as trained latents are from their neighbours, and "
        f"{surely:.1f} standard deviations: the network was never trained on such a latent"
    )
    return why


def overconfident(stream: Stream) -> str | None:
    """Whether two of three hold: poor coverage, poor likelihood, and a belief that moves more than it says."""
    if stream.steps < RECENT:
        return None
    reasons = []
    if stream.recent_coverage < LOW_COVERAGE:
        reasons.append(f"only {stream.recent_coverage:.0%} of what was observed lay in the 90 % intervals")
    if stream.jump > JUMP:
        reasons.append(
            f"the belief moved by up to {stream.jump:.1f} of the standard deviations that it had before them"
        )
    reached, likely = stream.trained_log_likelihood, float(np.median(stream.log_likelihood[-RECENT:]))
    if reached is not None and likely < reached - stream.margin:
        reasons.append(f"the median log-likelihood was {likely:.1f} nats, in training the mean was {reached:.1f}")
    if len(reasons) < 2:
        return None
    return f"in the last {RECENT} steps {' and '.join(reasons)} (pyro-dynamics calibrate finds a lower --temperature)"


def recent(stream: Stream) -> str:
    """What is worth saying of the last steps of a belief in which nothing was found."""
    steps = min(RECENT, stream.steps)
    why = (
        f"in the last {steps} steps {stream.recent_coverage:.0%} of what was observed lay in the 90 % intervals, and "
        f"the belief moved by up to {stream.jump:.1f} of the standard deviations that it had before them"
    )
    return why if steps == RECENT else f"{why}; fewer than {RECENT} steps show little"


def _distance(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> float:
    """Mahalanobis distance of two diagonal Gaussians, each a mean and a standard deviation ``[d]``."""
    return float(np.sqrt(((one[0] - other[0]) ** 2 / (one[1] ** 2 + other[1] ** 2)).sum()))
