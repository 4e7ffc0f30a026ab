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
from pyro_dynamics.diagnostics.posterior.missed_mass import Missed
from pyro_dynamics.diagnostics.prediction.held_out import CHANCE, PredictionQuality
from pyro_dynamics.diagnostics.stream import checks
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.troubles import Trouble

LOW_COVERAGE, HIGH_COVERAGE = 0.8, 0.95
"""Shares of targets inside 90 % intervals between which predictions are called calibrated. Steps of one episode are
correlated, so more than the binomial error of 200 steps (0.02) must be allowed; intervals that are too narrow mislead a
planner, and those that are over-dispersed do not, so that what is below is a fault and what is above is reported."""


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
    UNINFORMED = "uninformed"
    """It has learned nothing, where the data say much."""
    STALE = "stale"
    """It does not follow a change."""
    OUT_OF_RANGE = "out of the trained range"
    """The network was never trained on such latents, or on such states."""
    COLLAPSED = "collapsed"
    """The network does not use the latent."""
    NO_POSTERIOR = "no posterior"
    """The agent infers none, and its predictions are well as far as they are known."""


MEANINGS = {
    Word.BELIEVE: "the posterior is what the data say, as far as draws of the guide, of the prior and of the other "
    "environments' guides reach.",
    Word.OVER_DISPERSED: "the guide covers the posterior, but is wider: safe to plan with, and less certain than the "
    "data allow. A guide that has not converged is like that: train with more --offline.min-steps, or another --guide.",
    Word.LATENT_ONLY: "the latent is well, but the intervals of predictions are too narrow: do not rely on them.",
    Word.OVERCONFIDENT: "the guide is narrower than the data allow: try another --guide, or a lower --temperature.",
    Word.DO_NOT_BELIEVE: "the guide misses its posterior: try another --guide, or train for longer.",
    Word.UNINFORMED: "the belief is still the prior, though the data say more: try another --update.",
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
    wide: str | None = None,
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
        wide: why the belief is over-dispersed at the end, if it is.
    """
    since = _trouble_since(troubles, length)
    last = [one for one in troubles if since is not None and one.last >= since]
    past = [one.past for one in sorted(troubles, key=lambda one: one.first) if one not in last]
    found = [] if stream is None else findings(stream, any(one.kind == "uninformed" for one in last))
    if found and found[0][0] == Word.COLLAPSED:
        return Verdict(Word.COLLAPSED, [found[0][1]])
    wrong = not has_latent or any(one.kind != "coverage" for one in last)
    for one in sorted(last, key=lambda one: one.first):
        word = Word.DO_NOT_BELIEVE if one.kind == "coverage" and wrong else WORDS.get(one.kind, Word.DO_NOT_BELIEVE)
        found.append((word, one.lasting(length)))
    if found:
        order = list(reversed(Word))
        found.sort(key=lambda one: order.index(one[0]))
        # That of the word first; then by step, with what is over at the end.
        first = {one.lasting(length): one.first for one in last}
        reasons = [why for _, why in found]
        rest = sorted(reasons[1:], key=lambda why: first.get(why, length))
        return Verdict(found[0][0], [reasons[0], *rest, *past], since)
    if not has_latent:
        reason = "this agent infers no latent, and so has no belief: only its predictions were looked at"
        return Verdict(Word.NO_POSTERIOR, [reason, *past, *well])
    reasons = list(well) if stream is None else [*well, checks.recent(stream)]
    again = max((one.last + 1 for one in troubles), default=None)
    if wide:
        return Verdict(Word.OVER_DISPERSED, [wide, *reasons, *past], again)
    return Verdict(Word.BELIEVE, [*reasons, *past], again)


WORDS = {
    "narrow": Word.OVERCONFIDENT,
    "uninformed": Word.UNINFORMED,
    "stale": Word.STALE,
    "coverage": Word.LATENT_ONLY,
    "far": Word.OUT_OF_RANGE,
}
"""What a kind of trouble that lasts is called; all others are not to be believed."""


def findings(stream: Stream, uninformed: bool = False) -> list[tuple[Word, str]]:
    """What beliefs and predictions alone show to be wrong, the most serious first.

    Fewer than 50 steps show little, and a change only shows once the steps after it fill a good part of the last 50,
    and only in states in which the physics matter.

    Args:
        stream: beliefs and predictions by step.
        uninformed: whether the data are known to say more than a belief that is as wide as the prior.
    """
    if why := checks.indistinct(stream) or (None if uninformed else checks.still_prior(stream)):
        return [(Word.COLLAPSED, why)]
    rules = ((Word.OUT_OF_RANGE, checks.out_of_range), (Word.OVERCONFIDENT, checks.overconfident))
    return [(word, why) for word, check in rules if (why := check(stream))]


def _trouble_since(troubles: Sequence[Trouble], length: int) -> int | None:
    """The first step of the troubles that follow one another up to the last step; None if all is well there."""
    since = length
    for one in sorted(troubles, key=lambda one: -one.last):
        if one.last >= since - 1:
            since = min(since, one.first)
    return since if since < length else None


def reasons_to_believe(steps: Sequence[int], judged: Sequence[Importance], missed: Missed | None) -> list[str]:
    """How a belief in which nothing is wrong stands to its posterior after the last step.

    Args:
        steps: the checkpoints.
        judged: the weights at each.
        missed: what lies elsewhere after the last.
    """
    if not judged:
        return []
    last = judged[-1]
    return [
        f"after step {steps[-1]} its 90 % interval covers {last.covered:.0%} of its posterior, of which it has "
        f"{min(last.spread):.2f} to {max(last.spread):.2f} times the width ({_k_hat(last)})",
        "a part of the posterior that none of its draws is near would not be seen"
        if missed is None
        else f"{missed.share:.0%} of that lies elsewhere, as far as draws of the prior and the trained latents reach",
    ]


def reasons_all_along(
    steps: Sequence[int], judged: Sequence[Importance], running: np.ndarray, compared: Sequence[str], region: float
) -> list[str]:
    """What was looked at along a stream in which nothing ever was wrong.

    Args:
        steps: the checkpoints.
        judged: the weights at each.
        running: coverage of each 50 steps.
        compared: the parameters whose truth is known.
        region: probability of the region that the truth was compared with.
    """
    reasons = []
    if wide := [step for step, one in zip(steps, judged, strict=True) if one.only_wide]:
        reasons.append(f"at {len(wide)} of {len(judged)} checkpoints the belief was only over-dispersed")
    if len(running):
        stretch = f"any {checks.RECENT} steps (of all, where there are fewer)"
        reasons.append(f"of {stretch} at least {running.min():.0%} lay in the network's 90 % intervals")
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
    if verdict := _unused(predictions, used_elsewhere):
        return verdict
    found, missed = posterior.importance, posterior.missed
    if found.fault:
        word = Word.OVERCONFIDENT if found.fault == "narrow" else Word.DO_NOT_BELIEVE
        return Verdict(word, [_fault(found)])
    if missed is not None and missed.counts:
        why = f"{missed.words}, which importance weights of the guide's own draws do not see ({_k_hat(found)})"
        return Verdict(Word.DO_NOT_BELIEVE, [why])
    good = [_k_hat(found), f"its 90 % interval covers {found.covered:.0%} of the posterior"]
    if missed is not None:
        good.append(f"{missed.share:.0%} of that lies elsewhere, as far as the prior and the other guides reach")
    if predictions.coverage < LOW_COVERAGE:
        return Verdict(Word.LATENT_ONLY, [f"the latent is well ({good[0]}), but {intervals}", *good[1:]])
    if max(found.spread) > checks.WIDE:
        wide = f"the guide has {max(found.spread):.1f} times the width of its posterior"
        few = [f"only {found.effective:.0f} of its draws count: give more by --draws"] if found.only_wide else []
        return Verdict(Word.OVER_DISPERSED, [wide, *few, *good, intervals])
    return Verdict(Word.BELIEVE, [*good, intervals])


def _unused(predictions: PredictionQuality, used_elsewhere: bool) -> Verdict | None:
    """What is to be said where an environment's own latent predicts no better than the others'."""
    if predictions.gap is None or predictions.uses_latent:
        return None
    better = (
        f"its own latent predicts its episodes {predictions.gap:+.3g} nats per transition better than other "
        f"environments' (p = {predictions.gap_p:.2g})"
    )
    if not used_elsewhere:
        return Verdict(Word.COLLAPSED, [f"{better}: no gain that can be distinguished from none"])
    if predictions.gap <= 0 and predictions.gap_p < CHANCE:
        return Verdict(Word.DO_NOT_BELIEVE, [f"{better}, and most other environments are predicted best by theirs"])
    return None


def _fault(found: Importance) -> str:
    """What is wrong with a guide, as far as its own draws can show."""
    if found.fault == "not finite":
        return "the densities are not finite"
    if found.fault == "off":
        return (
            f"the guide is off its posterior by {found.distance:.1f} of its sds or more: its 90 % interval covers "
            f"{found.covered:.0%} ({_k_hat(found)})"
        )
    if found.fault == "narrow":
        return (
            f"the guide is too narrow: {min(found.spread):.2f} of the weighted draws' width, or less ({_k_hat(found)})"
        )
    return f"nothing can be read from the weights: the posterior may lie where the guide has no draws ({_k_hat(found)})"


def _k_hat(found: Importance) -> str:
    """K-hat with what it means for the weights."""
    if found.k_hat == -math.inf:
        return "as the exact posterior"
    if found.reliable:
        return f"k-hat {found.k_hat:.2f} < {found.threshold:.2f}"
    if found.alike:
        return f"k-hat {found.k_hat:.2f}, of weights that are nearly alike"
    return f"k-hat {found.k_hat:.2f} > {found.threshold:.2f}: from so few draws that is rough"


def _intervals(predictions: PredictionQuality) -> str:
    share = predictions.coverage
    kind = "too narrow" if share < LOW_COVERAGE else "calibrated" if share <= HIGH_COVERAGE else "over-dispersed"
    return f"90 % intervals cover {share:.0%} of held-out targets ({kind})"
