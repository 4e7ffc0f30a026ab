"""The paper's claims, judged by our runs.

Rule: each claim has a statistic for each seed, mostly the difference of the latent agent and another ON THE SAME SEED,
and a 95 % interval of its mean from 500 bootstraps over seeds. With fewer than 3 seeds a claim is *inconclusive*. Else

- a claim of superiority (and that the steepest new contexts lie outside, whose statistic is the margin) *holds* where
  the interval lies above 0, *does not hold* where it lies below 0, and is *inconclusive* where it contains 0;
- that latents are in order *holds* where the interval of Spearman's correlation lies above 0.9, *does not hold* where
  it lies below, and else is *inconclusive*; that new contexts are in an order at all is judged against 0;
- that there is NO clear win *holds* where the interval is not wholly above 0, and else *does not hold*.

This interval, the paper's, is too narrow for few seeds (see :func:`pyro_dynamics.reproduction.aggregate.mean`): each
claim also has whether Student's t gives the same verdict.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import trapezoid
from scipy.stats import spearmanr
from xarray import DataArray

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.reproduction import aggregate
from pyro_dynamics.reproduction.aggregate import Estimate
from pyro_dynamics.reproduction.latent_rows import LatentMap, LatentRows
from pyro_dynamics.reproduction.score_rows import Scores, by_seed, seed_gains

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"
MIN_SEEDS = 3
ORDER = 0.9
"""Spearman's correlation above which contexts count as in order: 11 contexts with 5 pairs of neighbours exchanged
have 0.955."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, and our number for it.

    Attributes:
        text: the sentence.
        measure: what the number is, with its unit.
        seeds: the number for each seed, ``[S]``.
        threshold: what the number is compared with.
        no_win: the claim is that the number is NOT above the threshold.
        digits: after the point, in a table.
    """

    text: str
    measure: str
    seeds: Sequence[float]
    threshold: float = 0.0
    no_win: bool = False
    digits: int = 2

    @property
    def estimate(self) -> Estimate:
        """The mean over seeds with the paper's interval."""
        return aggregate.mean(self.seeds)

    @property
    def student(self) -> Estimate:
        """The same with Student's t interval."""
        return aggregate.student(self.seeds)

    @property
    def verdict(self) -> str:
        """By the rule of this module."""
        return self._judge(self.estimate)

    @property
    def firm(self) -> bool:
        """Student's t interval gives the same verdict."""
        return self.verdict == self._judge(self.student)

    def _judge(self, found: Estimate) -> str:
        if found.count < MIN_SEEDS or found.low is None or found.high is None:
            return OPEN
        if self.no_win:
            return FAILS if found.low > self.threshold else HOLDS
        if found.low > self.threshold:
            return HOLDS
        return FAILS if found.high < self.threshold else OPEN


def claims(scores: Scores, latents: LatentRows) -> list[Claim]:
    """Every claim of the paper, in its order."""
    return [*learning_claims(scores), *dynamic_claims(scores), *new_environment_claims(scores), *latent_claims(latents)]


def learning_claims(scores: Scores) -> list[Claim]:
    """That the latent agent learns faster, by the area under the curves of mean scores over rounds."""
    gains = {other: curve_gains(scores, other) for other in ("generalist", "specialist")}
    found = []
    for other, gain in gains.items():
        rounds = gain.sizes["episode"] - 1
        for name, until in (("all rounds", rounds), ("the first quarter of the rounds", -(-rounds // 4))):
            measure = f"area between the curves of scores over {name} (0 to {max(until, 0)}), divided by their number"
            found.append(Claim(f"learns faster than the {other}", measure, area(gain, until)))
    first = min(scores.checkpoints("test"), default=0)
    reached = 0 < first < gains["specialist"].sizes["episode"]
    early = gains["specialist"][:, 1 : first + 1].mean("episode").values.tolist() if reached else []
    measure = f"mean difference in score over the rounds up to the first checkpoint (1 to {first})"
    return [*found, Claim("at least the specialist early on", measure, early)]


def curve_gains(scores: Scores, other: str) -> DataArray:
    """Difference in score of the latent agent and another in each round, ``[S, M + 1]``.

    M is the last round that both have reached, and only seeds in which both have all rounds up to it are used.
    """
    reference = scores.best("train")
    ours, theirs = (
        by_seed(scores.normalised(scores.returns(agent, "train"), reference)) for agent in ("latent", other)
    )
    rounds = min(ours.sizes["episode"], theirs.sizes["episode"])
    return (ours[:, :rounds] - theirs[:, :rounds]).dropna("seed")


def area(curves: DataArray, until: int) -> list[float]:
    """Area under each seed's curve ``[S, M + 1]`` from round 0 to ``until`` by trapezoids, over ``until``, ``[S]``."""
    if until < 1:
        return []
    return [float(value) for value in trapezoid(curves.values[:, : until + 1], axis=1) / until]


def dynamic_claims(scores: Scores) -> list[Claim]:
    """That the latent agent beats the generalist where the environment changes, at each checkpoint."""
    return [
        Claim(
            "beats the generalist in the changing environment",
            f"difference in mean return of the episodes, after {at} rounds",
            _gains(scores.final("latent", "dynamic", at), scores.final("generalist", "dynamic", at)),
            digits=0,
        )
        for at in scores.checkpoints("dynamic")
    ]


def new_environment_claims(scores: Scores) -> list[Claim]:
    """That new contexts are mastered better with few data, and that at the extremes there is no clear win."""
    checkpoints = scores.checkpoints("test")
    if not checkpoints:
        return []
    first, last = checkpoints[0], checkpoints[-1]
    found = [
        Claim(
            f"superior to the {other} in new environments with few data",
            f"difference in mean score, after {first} rounds",
            seed_gains(scores, "test", first, other=other).values.tolist(),
        )
        for other in ("generalist", "specialist")
    ]
    outer = extremes(scores)
    if outer:
        ours, theirs = (_only(scores.scores(agent, "test", last), outer) for agent in ("latent", "generalist"))
        measure = f"difference in mean score at {' and '.join(outer)}, after {last} rounds"
        text = "no clear win over the generalist at the extremes"
        found.append(Claim(text, measure, _gains(ours, theirs), no_win=True))
    return found


def extremes(scores: Scores) -> list[str]:
    """The outermost test contexts beyond the trained ones, as text; none where contexts are not single numbers."""
    trained, tested = (scores.contexts(split) for split in ("train", "test"))
    if not trained or not tested or not _single([*trained.values(), *tested.values()]):
        return []
    low, high = min(trained.values()), max(trained.values())
    names = list(tested)
    return [names[end] for end, beyond in ((0, tested[names[0]] < low), (-1, tested[names[-1]] > high)) if beyond]


def latent_claims(latents: LatentRows) -> list[Claim]:
    """That latents are in the order of the hidden parameter, and those of the steepest new contexts outside.

    A linear probe is fitted on the latents of the TRAINED contexts of each seed, and evaluated everywhere.
    """
    maps = [found for seed in latents.seeds if (found := latents.last(seed)) is not None]
    maps = [found for found in maps if found.trained.sum() > 1 and not any(isinstance(c, str) for c in found.contexts)]

    def each(number: Callable[[LatentMap], float]) -> list[float]:
        return [value for found in maps if np.isfinite(value := number(found))]

    outside = each(margin_outside)
    return [
        Claim(
            "latents are in the order of the hidden parameter",
            "Spearman's correlation, over all contexts, of a linear probe fitted on the trained ones; against 0.9",
            each(rank_correlation),
            threshold=ORDER,
        ),
        Claim(
            "latents of new environments are in that order",
            "Spearman's correlation of the same probe over new contexts only",
            each(lambda found: rank_correlation(found, ~found.trained)),
        ),
        Claim(
            "latents of the steepest new environments lie outside those of the trained ones",
            "how far the probe reads them outside, in the context's unit, the nearer of the ends; "
            f"outside in {sum(value > 0 for value in outside)} of {len(outside)} seeds",
            outside,
        ),
    ]


def reading(found: LatentMap) -> np.ndarray:
    """Predictions of a linear probe, fitted on the trained contexts, in every context, ``[K, P]``."""
    trained = [context for context, there in zip(found.contexts, found.trained, strict=True) if there]
    return columns(ContextProbe(found.means[found.trained], trained).predict(found.means))


def rank_correlation(found: LatentMap, of: np.ndarray | None = None) -> float:
    """Spearman's correlation of the probe's predictions and the truth, mean over parameters; NaN if undefined.

    Args:
        found: latents.
        of: the contexts to use, ``[K]``; all by default.
    """
    chosen = np.ones(len(found.contexts), dtype=bool) if of is None else of
    pairs = [
        (read[chosen], true[chosen]) for read, true in zip(reading(found).T, columns(found.contexts).T, strict=True)
    ]
    if any(len(np.unique(side)) < 2 for pair in pairs for side in pair):
        return float("nan")
    return float(np.mean([spearmanr(*pair).statistic for pair in pairs]))


def margin_outside(found: LatentMap) -> float:
    """By how much the probe places the extreme new contexts outside all trained ones, in the context's unit.

    Of the two ends the smaller margin; negative where one of them is placed among the trained ones. NaN where contexts
    are not single numbers, or no new context lies beyond the trained ones.
    """
    if not _single(found.contexts):
        return float("nan")
    truth, read = np.array(found.contexts, dtype=float).ravel(), reading(found)[:, 0]
    margins = [
        (sign * read[new]) - (sign * read[found.trained]).max()
        for sign in (1, -1)
        for new in [np.argmax(sign * truth)]
        if not found.trained[new] and not found.trained[truth == truth[new]].any()
    ]
    return float(min(margins, default=float("nan")))


def _gains(ours: DataArray, theirs: DataArray) -> list[float]:
    return (by_seed(ours) - by_seed(theirs)).values.tolist()


def _only(scores: DataArray, contexts: Sequence[str]) -> DataArray:
    """Some contexts of scores; nothing where one of them has no scale."""
    if not set(contexts) <= set(scores["context"].values.tolist()):
        return scores[:0]
    return scores.sel(context=list(contexts))


def _single(contexts: Sequence[Any]) -> bool:
    return all(not isinstance(context, str) and np.size(context) == 1 for context in contexts)
