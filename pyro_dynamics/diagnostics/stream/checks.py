"""What a stream of steps shows of the belief about one environment: a check for each kind of fault, with reasons.

:mod:`pyro_dynamics.diagnostics.verdict` makes one word out of them.

The thresholds were chosen by hand, with the reasons below, and looked at on streams of one pendulum run and one
HalfCheetah run: in what they do not see, and in what they see by chance, other models will differ.
"""

from collections.abc import Callable
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
LOW_COVERAGE = 0.75
"""Share of targets inside 90 % intervals: 50 independent steps come below it once in a thousand times."""
COVERAGE_DROP = 0.2
"""By how much a coverage must lie below its best to be much worse: four standard errors of 50 steps."""
NATS_BELOW = 1.0
"""Nats for each target dimension: errors that were as large as the predicted noise are then 1.7 times as large."""
WORST = 0.1
"""Share of the steps that is looked at for wrong physics: in most states (a pendulum that stands) they hardly show."""
JUMP = 3.0
"""Standard deviations: the mean of a belief that is right moves, from now to ever after, by about one of those that it
has now, for they say how far off it may be. In 11 streams without a change the largest was 2.4."""
DRIFT = 2.0
"""Standard deviations, twice in a row and the same way: a belief that is right has used up its room after one."""
HARDLY_MOVES = 0.5
"""Share of the distance between neighbouring trained latents: a change of context is worth about one such distance."""
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
        prior_scale: standard deviation of the belief before the first step.
    """

    mean: np.ndarray
    scale: np.ndarray
    log_likelihood: np.ndarray
    pit: np.ndarray
    trained_mean: np.ndarray
    trained_scale: np.ndarray
    trained_log_likelihood: float | None = None
    prior_scale: float = 1.0

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

    def moves(self, ago: int = 0) -> np.ndarray:
        """How far the mean went over RECENT steps that ended ``ago`` steps before the last, ``[d]``.

        In units of the standard deviation that the belief had before them.
        """
        end = self.steps - 1 - ago
        begin = max(end - RECENT, 0)
        return (self.mean[end] - self.mean[begin]) / self.scale[begin]

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


def collapsed(stream: Stream) -> str | None:
    """Whether the latent means nothing: environments do not differ in it, or the belief about it stays the prior."""
    latents = list(zip(stream.trained_mean, stream.trained_scale, strict=True))
    apart = max((_distance(one, other) for one, other in combinations(latents, 2)), default=np.inf)
    if apart < SEPARATION:
        why = (
            f"the two trained latents that are farthest apart lie {apart:.1f} of their own standard deviations from "
            f"each other, and {SEPARATION:g} are needed to distinguish any two environments"
        )
        return why
    narrowest = float(stream.scale[-RECENT:].min()) / stream.prior_scale
    if stream.steps >= RECENT and narrowest > STILL_PRIOR:
        why = (
            f"after {stream.steps} steps the belief's standard deviation is still {narrowest:.2f} of the prior's or "
            "more in every dimension: the network does not use the latent"
        )
        return why
    return None


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


def stale(stream: Stream) -> str | None:
    """Whether the belief does not follow a change, though what was observed says that there was one.

    A change is not forgotten at once: the states that showed it may be over, and the belief as wrong as before.
    """
    if stream.steps < 2 * RECENT:
        return None
    for evidence in (_covers_less, _predicts_worse, _drifts):
        if found := evidence(stream):
            reason, since = found
            went = float(np.linalg.norm(stream.mean[-1] - stream.mean[since - 1])) / stream.spacing
            if went < HARDLY_MOVES:
                why = (
                    f"{reason}, and since then the belief went {went:.0%} of the way between neighbouring trained "
                    "latents: something may have changed that it cannot follow (try another --belief)"
                )
                return why
    return None


def _covers_less(stream: Stream) -> tuple[str, int] | None:
    worst, best, start = _worst_stretch(stream.inside, lambda rows: rows.mean(1))
    if best - worst <= COVERAGE_DROP:
        return None
    reason = (
        f"in the {RECENT} steps from step {start} on {worst:.0%} of what was observed lay in the 90 % intervals, and "
        f"earlier {best:.0%}"
    )
    return reason, start


def _predicts_worse(stream: Stream) -> tuple[str, int] | None:
    worst, best, start = _worst_stretch(stream.log_likelihood, lambda rows: np.quantile(rows, WORST, axis=1))
    if best - worst <= stream.margin:
        return None
    reason = (
        f"in the {RECENT} steps from step {start} on the worst tenth has log-likelihoods below {worst:.1f} nats, and "
        f"earlier below {best:.1f}"
    )
    return reason, start


def _drifts(stream: Stream) -> tuple[str, int] | None:
    """Whether the belief keeps moving in one direction by more than it gives itself room for."""
    if stream.steps <= 2 * RECENT:
        return None
    now, before = stream.moves(), stream.moves(RECENT)
    sizes = np.linalg.norm(now), np.linalg.norm(before)
    if min(sizes) <= DRIFT or now @ before <= 0.5 * sizes[0] * sizes[1]:  # more than 60 degrees apart
        return None
    reason = (
        f"in each of the last two {RECENT} steps the belief moved the same way by at least {min(sizes):.1f} of the "
        "standard deviations that it had"
    )
    return reason, stream.steps - RECENT


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


def _worst_stretch(values: np.ndarray, summary: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float, int]:
    """Of any RECENT steps in a row among the last 2 RECENT, those that are worst against the best before them.

    Args:
        values: by step, ``[N]``; N is at least 2 RECENT.
        summary: of rows ``[n, RECENT]``, ``[n]``.

    Returns:
        Their summary, the best one before them, and their first step.
    """
    stretches = summary(np.lib.stride_tricks.sliding_window_view(values, RECENT))
    starts = np.arange(max(RECENT, len(values) - 2 * RECENT), len(stretches))
    best = np.maximum.accumulate(stretches)[starts - RECENT]
    chosen = int((best - stretches[starts]).argmax())
    return float(stretches[starts[chosen]]), float(best[chosen]), int(starts[chosen])
