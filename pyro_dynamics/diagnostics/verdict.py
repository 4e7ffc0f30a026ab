"""Should one believe it? One rule in one set of words, for beliefs along a stream and for trained posteriors.

``adapt``, ``track`` and ``diagnose`` all judge by it, so that they say the same of the same stream.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pyro_dynamics.diagnostics.diagnosis import PosteriorQuality
from pyro_dynamics.diagnostics.posterior.importance import Importance
from pyro_dynamics.diagnostics.prediction.held_out import PredictionQuality
from pyro_dynamics.diagnostics.stream import checks
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.troubles import Trouble

LOW_COVERAGE, HIGH_COVERAGE = 0.8, 0.95
"""Shares of targets inside 90 % intervals between which predictions are called calibrated. Steps of one episode are
correlated, so more than the binomial error of 200 steps (0.02) must be allowed; intervals that are too narrow mislead a
planner, and those that are over-dispersed do not, so that what is below is a fault and what is above is reported."""
NARROW = 0.85
"""Ratio of standard deviations below which a guide is overconfident, even where k-hat lets it pass: of a mean-field
guide on a correlated posterior it often does with 1000 draws, while the weighted draws are plainly wider than it is."""
NEARLY = 0.9
"""Share of effective draws above which a guide is its posterior, but for what no one would notice: k-hat can be above 1
there, where a flat stretch of the weights ends in a few draws that are a little larger."""
WIDE = 2.0
"""Ratio of standard deviations above which a guide that covers its posterior is called over-dispersed: it wastes what
the data says, which is safe, and which k-hat does not see."""


class Word(StrEnum):
    """All that a verdict can say."""

    BELIEVE = "believe"
    OVER_DISPERSED = "believe, but over-dispersed"
    """It covers what the data says, and is wider than it need be."""
    LATENT_ONLY = "believe the latent only"
    """Nothing is wrong with the latent, but the intervals of the predictions are too narrow."""
    OVERCONFIDENT = "overconfident"
    """It is narrower than what the data says."""
    DO_NOT_BELIEVE = "do not believe"
    """It is not where the data or the truth is."""
    STALE = "stale"
    """It does not follow a change."""
    OUT_OF_RANGE = "out of the trained range"
    """The network was never trained on such latents."""
    COLLAPSED = "collapsed"
    """The network does not use the latent."""
    NO_POSTERIOR = "no posterior"
    """The agent infers none, and its predictions are well as far as they are known."""


MEANINGS = {
    Word.BELIEVE: "the posterior is what the data say, as far as it was looked at.",
    Word.OVER_DISPERSED: "the guide covers the posterior, but is wider: safe to plan with, and less certain than the "
    "data allow. A guide that has not converged is like that: train with more --offline.min-steps, or another --guide.",
    Word.LATENT_ONLY: "the latent is well, but the intervals of predictions are too narrow: do not rely on them.",
    Word.OVERCONFIDENT: "the guide is narrower than the data allow: try another --guide, or a lower --temperature.",
    Word.DO_NOT_BELIEVE: "the guide misses its posterior: try another --guide, or train for longer.",
    Word.STALE: "the belief does not follow a change: try another --belief.",
    Word.OUT_OF_RANGE: "the network was never trained on such latents: train on contexts that are more like this one.",
    Word.COLLAPSED: "the network does not use its latent, which then means nothing: see docs/results/collapse.md.",
    Word.NO_POSTERIOR: "this agent infers no latent; only its predictions were looked at.",
}
"""What each word means for whoever reads it about a trained posterior, and what to do."""


@dataclass(frozen=True)
class Verdict:
    """A word, and why.

    Attributes:
        word: the verdict.
        reasons: with the numbers; that of the word first, the others by step.
        since: of a stream, the step since which it was so without a break; None if that is not known, or if it was
            never otherwise.
    """

    word: Word
    reasons: list[str]
    since: int | None = None

    @property
    def title(self) -> str:
        """The word, and since when."""
        again = " again" if self.word == Word.BELIEVE else ""
        return self.word if self.since is None else f"{self.word}{again} since step {self.since}"

    @property
    def why(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def text(self) -> str:
        """The title, and a line for each reason."""
        return "\n  ".join([f"{self.title}:", *self.reasons])

    def __str__(self) -> str:
        return self.text


def judge_stream(
    length: int,
    troubles: Sequence[Trouble],
    stream: Stream | None = None,
    has_latent: bool = True,
    well: Sequence[str] = (),
) -> Verdict:
    """Whether the belief can be believed at the end of its steps; each finding may be missing where it is not known.

    The order is that of causes: a collapsed latent means nothing at all, and nothing else is then reported; outside the
    trained range no prediction can be trusted, whatever the belief does; a belief that does not follow a change is also
    wrong and overconfident, while one that is only overconfident needs another temperature.

    Args:
        length: the number T of steps.
        troubles: stretches over which something was wrong; those that last until the end count.
        stream: beliefs and predictions by step, beside what was trained on; None where they are not known.
        has_latent: whether the agent infers a latent.
        well: what else was looked at, as reasons to believe where nothing is wrong.
    """
    since = _trouble_since(troubles, length)
    last = [one for one in troubles if since is not None and one.last >= since]
    found = [] if stream is None else findings(stream)
    if found and found[0][0] == Word.COLLAPSED:
        return Verdict(Word.COLLAPSED, [found[0][1]])
    wrong = not has_latent or any(one.kind != "coverage" for one in last)
    found += [(Word.DO_NOT_BELIEVE if wrong else Word.LATENT_ONLY, one.words) for one in last]
    if found:
        order = list(reversed(Word))
        found.sort(key=lambda one: order.index(one[0]))
        reasons = [why for _, why in found] + [one.words for one in troubles if one not in last]
        # That of the word first; then by step, and what holds of the last steps at the end.
        first = {one.words: one.first for one in troubles}
        return Verdict(found[0][0], reasons[:1] + sorted(reasons[1:], key=lambda why: first.get(why, length)), since)
    if not has_latent:
        reason = "this agent infers no latent, and so has no belief: only its predictions were looked at"
        return Verdict(Word.NO_POSTERIOR, [reason, *(one.words for one in troubles), *well])
    reasons = [*(one.words for one in troubles), *well]
    if stream is not None:
        reasons.append(checks.recent(stream))
    return Verdict(Word.BELIEVE, reasons, max((one.last + 1 for one in troubles), default=None))


def findings(stream: Stream) -> list[tuple[Word, str]]:
    """What beliefs and predictions alone show to be wrong, the most serious first.

    Fewer than 50 steps show little, and a change only shows once the steps after it fill a good part of the last 50,
    and only in states in which the physics matter.
    """
    if why := checks.collapsed(stream):
        return [(Word.COLLAPSED, why)]
    rules = (
        (Word.OUT_OF_RANGE, checks.out_of_range),
        (Word.STALE, checks.stale),
        (Word.OVERCONFIDENT, checks.overconfident),
    )
    return [(word, why) for word, check in rules if (why := check(stream))]


def _trouble_since(troubles: Sequence[Trouble], length: int) -> int | None:
    """The first step of the troubles that follow one another up to the last step; None if all is well there."""
    since = length
    for one in sorted(troubles, key=lambda one: -one.last):
        if one.last >= since - 1:
            since = min(since, one.first)
    return since if since < length else None


def reasons_to_believe(
    steps: Sequence[int], judged: Sequence[Importance], running: np.ndarray, compared: Sequence[str], region: float
) -> list[str]:
    """What was looked at along a stream in which nothing was wrong.

    Args:
        steps: the checkpoints of k-hat.
        judged: k-hat at each.
        running: coverage of each 50 steps.
        compared: the parameters whose truth is known.
        region: probability of the region that the truth was compared with.
    """
    reasons = []
    if judged:
        k_hat = [math.inf if math.isnan(one.k_hat) else one.k_hat for one in judged]
        rest = [(value, step) for value, step, one in zip(k_hat, steps, judged, strict=True) if not one.only_wide]
        highest = "(the highest: {:.2f} at step {})".format(*max(rest)) if rest else "(none was to be judged)"
        reasons.append(f"k-hat was at no two checkpoints running above {judged[0].threshold:.2f} {highest}")
        if wide := [step for step, one in zip(steps, judged, strict=True) if one.only_wide]:
            reasons.append(f"at {len(wide)} of {len(judged)} checkpoints the belief was only over-dispersed")
    if len(running):
        stretch = f"any {checks.RECENT} steps (of all, where there are fewer)"
        reasons.append(f"of {stretch} at least {running.min():.0%} lay in the 90 % intervals")
    if compared:
        reasons.append(f"the true {', '.join(compared)} did not stay outside the belief's {100 * region:.0f} % region")
    return reasons


def judge_posterior(
    posterior: PosteriorQuality | None, predictions: PredictionQuality, used_elsewhere: bool = False
) -> Verdict:
    """Whether a trained posterior can be believed; the most serious finding decides.

    Args:
        posterior: None for an agent without one.
        predictions: of held-out episodes.
        used_elsewhere: whether most environments are predicted best by their own latents: then the network uses them,
            and one environment that is not has a wrong latent, not a collapsed one.
    """
    intervals = _intervals(predictions)
    if posterior is None:
        return Verdict(Word.NO_POSTERIOR, ["only predictions to judge", intervals])
    if predictions.gap is not None and predictions.gap <= 0:
        better = f"other environments' latents predict its episodes {-predictions.gap:.2f} nats better than its own"
        if used_elsewhere:
            return Verdict(Word.DO_NOT_BELIEVE, [f"{better}, and most other environments are predicted best by theirs"])
        return Verdict(Word.COLLAPSED, [better])
    found = posterior.importance
    # Weights that are nearly alike leave nothing to condemn, though a few of them may look like a heavy tail.
    alike = found.effective > NEARLY * found.draws and not math.isnan(found.k_hat)
    if not found.reliable and not alike:
        return Verdict(Word.DO_NOT_BELIEVE, [f"k-hat {found.k_hat:.2f} > {found.threshold:.2f}: {_miss(found)}"])
    if min(found.spread) < NARROW:
        why = f"k-hat {found.k_hat:.2f}, but the guide has {min(found.spread):.2f} of the weighted draws' sd"
        return Verdict(Word.OVERCONFIDENT, [why])
    good = "as the exact posterior" if found.k_hat == -math.inf else f"k-hat {found.k_hat:.2f}"
    if predictions.coverage < LOW_COVERAGE:
        return Verdict(Word.LATENT_ONLY, [f"{good}, but {intervals}"])
    if max(found.spread) > WIDE:
        wide = f"the guide has {max(found.spread):.1f} times the sd of its posterior"
        return Verdict(Word.OVER_DISPERSED, [good, wide, intervals])
    return Verdict(Word.BELIEVE, [good, intervals])


def _miss(found: Importance) -> str:
    """Where a guide misses its posterior, as far as its own draws can show."""
    if math.isnan(found.k_hat):
        return "the densities are not finite"
    shift, spread = max(map(abs, found.shift)), min(found.spread)
    if shift > 1:
        return f"the guide is off its posterior by {shift:.1f} of its sds or more"
    if found.only_wide:
        return f"the guide is over-dispersed, and only {found.effective:.0f} of its draws count: give more by --draws"
    return f"the guide is too narrow: {spread:.2f} of the weighted draws' sd, or less"


def _intervals(predictions: PredictionQuality) -> str:
    share = predictions.coverage
    kind = "too narrow" if share < LOW_COVERAGE else "calibrated" if share <= HIGH_COVERAGE else "over-dispersed"
    return f"90 % intervals cover {share:.0%} of held-out targets ({kind})"
