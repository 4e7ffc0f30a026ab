"""What may be wrong with a belief over a stretch of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.posterior.importance import Importance
from pyro_dynamics.diagnostics.stream.central_region import REGION, REGION_SD
from pyro_dynamics.diagnostics.stream.checks import LOW_COVERAGE, RECENT, STILL_PRIOR, WIDE, Stream
from pyro_dynamics.diagnostics.stream.elsewhere import Better

OUTSIDE = 10
"""Steps running for which the truth must lie outside the belief's central region before it counts."""

BRIEF = 3
"""Fewer steps running far outside of what was trained on do not count."""
ONE_SIDED = 0.75
"""Predicted standard deviations by which what is observed lies to one side, on average, where a network is biased: of
right ones that many of 50 steps come to 0.14 each way, and such a bias alone costs a tenth of the coverage."""
FARTHEST = 4.0
"""Standard deviations that count of a single error, however large."""
SURELY_OUTSIDE = 2.58
"""Standard deviations between truth and belief, the probe's error among them, that one in a hundred right ones has."""
LONG = {"off": 2, "narrow": 2, "k-hat": 3}
"""Checkpoints running at which a fault of the weights must show. What k-hat shows alone is the least certain."""
SINCE_CHANGE = "the posterior of the steps since the last change"
"""What a belief is compared with where the true contexts are known."""
REMEMBERED = "the posterior of the steps that it remembers"
"""What it is compared with where they are not."""


@dataclass(frozen=True)
class Trouble:
    """A stretch of steps over which something is wrong.

    Attributes:
        first: its first step.
        last: its last step.
        kind: ``off``, ``narrow``, ``k-hat``, ``elsewhere``, ``uninformed``, ``stale``, ``biased``, ``coverage``,
            ``outside``, ``far`` or ``not finite``.
        words: for people, with the numbers.
    """

    first: int
    last: int
    kind: str
    words: str

    def lasting(self, length: int) -> str:
        """In words, of one of those that follow one another to the end of so many steps."""
        if self.last < length - 1:
            return f"steps {self.first} to {self.last}: {self.words}"
        return f"{'since' if self.first < self.last else 'after'} step {self.first}: {self.words}"

    @property
    def past(self) -> str:
        """In words, of one that is over."""
        return f"in the past, steps {self.first} to {self.last}: {self.words}"


def wrong_posterior(
    steps: Sequence[int], judged: Sequence[Importance], since: Sequence[int], what: str = SINCE_CHANGE
) -> list[Trouble]:
    """Stretches over which the belief is off its posterior, or too narrow for it, at two checkpoints running or more.

    Where the belief is only over-dispersed it is not wrong, and its draws are too few to say more.

    A change of context begins a new one: the belief is then wrong about another thing. A stretch lasts until the
    checkpoint that is well again; a single one, between others or at the very end, ends nothing.
    """
    change = _change(since)[list(steps)]
    faults = ["off" if one.fault == "not finite" else one.fault for one in judged]
    found = []
    for start, end in stretches(np.array([fault != "" for fault in faults]), change, shortest=2, join=1):
        part = [fault for fault in faults[start : end + 1] if fault]
        kind = next(kind for kind in LONG if kind in part)
        if len(part) < LONG[kind]:
            continue
        until = steps[end + 1] - 1 if end + 2 < len(steps) else steps[-1]
        found.append(Trouble(steps[start], until, kind, _words_on_posterior(kind, judged[start : end + 1], what)))
    return found


def uninformed(steps: Sequence[int], judged: Sequence[Importance], stream: Stream) -> list[Trouble]:
    """From where on the belief is no narrower than the prior, or never changes, though the data say more."""
    wide = np.array([max(one.spread) > WIDE for one in judged])
    at = np.asarray(steps)
    prior = wide & ((stream.scale[at] / stream.prior_scale).min(1) > STILL_PRIOR)
    found = [_until_now("uninformed", prior, steps, judged, "the belief is as wide as the prior")]
    moves = np.diff(np.concatenate([stream.mean, stream.scale], axis=1), axis=0)
    moved = np.flatnonzero((moves != 0).any(1))
    last = int(moved[-1]) + 1 if len(moved) else 0
    if stream.steps - last > RECENT:
        frozen = wide & (at >= last) & ~prior
        found.append(_until_now("stale", frozen, steps, judged, f"the belief has not changed since step {last}"))
    return [one for one in found if one is not None]


def _until_now(
    kind: str, bad: np.ndarray, steps: Sequence[int], judged: Sequence[Importance], what: str
) -> Trouble | None:
    """A stretch of two checkpoints or more that lasts until the end."""
    well = np.flatnonzero(~bad)
    first = int(well[-1]) + 1 if len(well) else 0
    if len(steps) - first < 2:
        return None
    times = max(judged[-1].spread)
    return Trouble(steps[first], steps[-1], kind, f"{what}, and {times:.1f} times as wide as the data say at the end")


def stale(better: Better, length: int) -> Trouble:
    """The belief does not follow a change."""
    words = (
        f"latents near {better.near} explain these steps {better.nats:.0f} nats better than the belief: something has "
        "changed that it does not follow (try another --belief), or it is wrong from the start"
    )
    return Trouble(better.first, length - 1, "stale", words)


def only_wide(judged: Sequence[Importance]) -> str | None:
    """Why a belief is over-dispersed at the end: at the last two checkpoints it is."""
    last = judged[-2:]
    if not last or not all(max(one.spread) > WIDE for one in last):
        return None
    one = last[-1]
    return (
        f"the belief is {max(one.spread):.1f} times as wide as its posterior ({one.effective:.0f} of its draws count)"
    )


def _change(since: Sequence[int]) -> np.ndarray:
    """How many changes of context there were up to each step, ``[T]``."""
    return np.cumsum([start == t for t, start in enumerate(since)])


def _words_on_posterior(kind: str, part: Sequence[Importance], what: str) -> str:
    worst = float(np.nanmax([one.k_hat for one in part] + [-np.inf]))
    k_hat = f"k-hat up to {worst:.2f}, threshold {part[0].threshold:.2f}"
    if kind == "off":
        last, off = part[-1], max(part, key=lambda one: one.distance)
        return (
            f"the belief is off {what} by {last.distance:.1f} of its standard deviations or more at the end of these "
            f"steps, and its 90 % interval covers {last.covered:.0%} of that (at worst {off.distance:.1f} and "
            f"{off.covered:.0%}; {k_hat})"
        )
    if kind == "narrow":
        narrowest = min(min(one.spread) for one in part)
        return f"the belief is down to {narrowest:.2f} times as wide as {what} ({k_hat})"
    return (
        f"nothing can be read from the importance weights: {REMEMBERED} may lie where the belief has no draws ({k_hat})"
    )


def not_finite(latent: np.ndarray) -> list[Trouble]:
    """From where on draws of the belief ``[T, S, d]`` are not finite."""
    wrong = np.flatnonzero(~np.isfinite(latent).all(axis=(1, 2)))
    if not len(wrong):
        return []
    return [Trouble(int(wrong[0]), len(latent) - 1, "not finite", "the belief is not finite")]


def far_states(far: np.ndarray, entries: str) -> list[Trouble]:
    """Stretches over which states lie far outside of what was trained on.

    Args:
        far: whether each step leads there, ``[T]``.
        entries: which entries do, in words.
    """
    found = stretches(far, np.zeros(len(far)), shortest=BRIEF, join=OUTSIDE)
    return [Trouble(first, last, "far", entries) for first, last in found]


def low_coverage(running: np.ndarray, length: int, pit: np.ndarray | None = None) -> list[Trouble]:
    """Stretches over which the coverage of the last 50 steps is low; fewer than 50 steps say too little.

    Where the errors are to one side, the network is biased here, and a belief that it is inferred with is wrong too.

    Args:
        running: coverage of each 50 steps.
        length: T.
        pit: the prediction's CDF at what was observed, ``[T, targets]``, where it is known.
    """
    if length < RECENT:
        return []
    found = []
    for start, end in stretches(running < LOW_COVERAGE, np.zeros(len(running)), shortest=1, join=OUTSIDE):
        first, last = (index + length - len(running) for index in (start, end))
        worst = running[start : end + 1].min()
        share = f"of the {RECENT} steps up to each only {worst:.0%} at worst lay in the 90 % intervals"
        bias = 0.0 if pit is None else one_sided(pit[max(first - RECENT + 1, 0) : last + 1])
        if abs(bias) > ONE_SIDED:
            words = f"what was observed lies {abs(bias):.1f} predicted standard deviations to one side; {share}"
            found.append(Trouble(first, last, "biased", words))
        else:
            found.append(Trouble(first, last, "coverage", share))
    return found


def one_sided(pit: np.ndarray) -> float:
    """Mean error of the worst target in predicted standard deviations, out of PIT values ``[n, targets]``."""
    from scipy.special import ndtri  # here, as it takes long

    mean = np.clip(ndtri(np.clip(pit, 1e-12, 1 - 1e-12)), -FARTHEST, FARTHEST).mean(0)
    return float(mean[np.abs(mean).argmax()])


def outside_region(
    decoded: np.ndarray, error: float, truth: np.ndarray, parameter: str, since: Sequence[int]
) -> list[Trouble]:
    """Stretches over which the truth ``[T]`` is surely outside the decoded region ``[3, T]``.

    The probe's error counts as well. One right belief in a hundred is so far off at a time.
    """
    low, middle, high = decoded
    beyond = np.maximum(low - truth, truth - high)
    side = np.where(truth < middle, middle - low, high - middle) / REGION_SD
    away = np.abs(truth - middle) / np.maximum(np.hypot(side, error), 1e-300)
    found = []
    for first, last in stretches(
        (beyond > 0) & (away > SURELY_OUTSIDE), _change(since), shortest=OUTSIDE, join=OUTSIDE
    ):
        words = (
            f"the true {parameter} lies outside the belief's {100 * REGION:.0f} % region (by up to "
            f"{beyond[first : last + 1].max():.2g}; the probe itself errs by {error:.2g})"
        )
        found.append(Trouble(first, last, "outside", words))
    return found


def stretches(bad: np.ndarray, part: np.ndarray, shortest: int, join: int) -> list[tuple[int, int]]:
    """First and last index of each run of true values.

    Args:
        bad: ``[n]``.
        part: rising numbers ``[n]``; a run ends where they do.
        shortest: of fewer values a run does not count.
        join: runs with so many other values between them, or fewer, are one.
    """
    merged: list[tuple[int, int]] = []
    for number in np.unique(part):
        here = np.flatnonzero(part == number)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], bad[here], [False]]).astype(int))) + here[0]
        joined: list[tuple[int, int]] = []
        for first, end in edges.reshape(-1, 2).tolist():
            if end - first < shortest:
                continue
            if joined and first - joined[-1][1] - 1 <= join:
                first = joined.pop()[0]
            joined.append((first, end - 1))
        merged += joined
    return merged
