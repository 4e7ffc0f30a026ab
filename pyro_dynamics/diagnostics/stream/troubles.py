"""What may be wrong with a belief over a stretch of steps, and the verdict that follows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.posterior.importance import Importance
from pyro_dynamics.diagnostics.stream.central_region import REGION
from pyro_dynamics.diagnostics.stream.health import LOW_COVERAGE, RECENT

OUTSIDE = 10
"""Steps running for which the truth must lie outside the belief's central region before it counts."""


@dataclass(frozen=True)
class Trouble:
    """A stretch of steps over which something is wrong.

    Attributes:
        first: its first step.
        last: its last step.
        kind: ``k-hat``, ``coverage`` or ``outside``.
        words: for people, with the steps and the numbers.
    """

    first: int
    last: int
    kind: str
    words: str


def wrong_posterior(steps: Sequence[int], judged: Sequence[Importance], told: Sequence[int]) -> list[Trouble]:
    """Stretches over which k-hat is not below its threshold at two checkpoints running or more.

    Where the belief is only wide it is not wrong, and its draws are too few to say more.

    A change of context begins a new one: the belief is then wrong about another thing. A stretch lasts until the
    checkpoint that is well again; a single one, between others or at the very end, ends nothing.
    """
    change = _change(told)[list(steps)]
    bad = np.array([not one.reliable and not one.only_wide for one in judged])
    found = []
    for start, end in stretches(bad, change, shortest=2, join=1):
        until = steps[end + 1] - 1 if end + 2 < len(steps) else steps[-1]
        words = _words_on_posterior(steps[start], until, judged[start : end + 1])
        found.append(Trouble(steps[start], until, "k-hat", words))
    return found


def _change(told: Sequence[int]) -> np.ndarray:
    """How many changes of context a told agent has been told of at each step, ``[T]``."""
    return np.cumsum([start == t for t, start in enumerate(told)])


def _words_on_posterior(first: int, last: int, part: Sequence[Importance]) -> str:
    worst = float(np.nanmax([one.k_hat for one in part] + [-np.inf]))
    off = max(float(np.abs(one.shift).max()) for one in part)
    return (
        f"steps {first} to {last}: the belief is not what the steps since the last change say (k-hat up to "
        f"{worst:.2f}, threshold {part[0].threshold:.2f}; its mean is off by {off:.1f} of its standard deviations or "
        "more)"
    )


def low_coverage(running: np.ndarray, length: int) -> list[Trouble]:
    """Stretches over which the coverage of the last 50 steps is low; fewer than 50 steps say too little."""
    if length < RECENT:
        return []
    found = []
    for start, end in stretches(running < LOW_COVERAGE, np.zeros(len(running)), shortest=1, join=OUTSIDE):
        first, last = (index + length - len(running) for index in (start, end))
        words = (
            f"steps {first} to {last}: of the {RECENT} steps up to each only {running[start : end + 1].min():.0%} at "
            "worst lay in the 90 % intervals"
        )
        found.append(Trouble(first, last, "coverage", words))
    return found


def outside_region(
    decoded: np.ndarray, error: float, truth: np.ndarray, parameter: str, told: Sequence[int]
) -> list[Trouble]:
    """Stretches over which the truth ``[T]`` is farther outside the decoded region ``[3, T]`` than the probe errs."""
    low, _, high = decoded
    beyond = np.maximum(low - truth, truth - high)
    found = []
    for first, last in stretches(beyond > error, _change(told), shortest=OUTSIDE, join=OUTSIDE):
        words = (
            f"steps {first} to {last}: the true {parameter} lies outside the belief's {100 * REGION:.0f} % region (by "
            f"up to {beyond[first : last + 1].max():.2g}; the probe itself errs by {error:.2g})"
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


def verdict_on(trouble: Sequence[Trouble], length: int) -> str:
    """Whether the belief can be believed at the end of its steps, and since when."""
    if not trouble:
        return "believe"
    since = length
    # From the end back, through troubles that follow one another.
    for one in sorted(trouble, key=lambda one: -one.last):
        if one.last >= since - 1:
            since = min(since, one.first)
    if since < length:
        return f"do not believe since step {since}"
    return f"believe again since step {max(one.last for one in trouble) + 1}"


def reasons_for(
    trouble: Sequence[Trouble],
    steps: Sequence[int],
    judged: Sequence[Importance],
    running: np.ndarray,
    compared: Sequence[str],
) -> list[str]:
    """The troubles, or what was looked at and found well; ``compared``: the parameters whose truth is known."""
    reasons = [one.words for one in trouble]
    if not trouble:
        if judged:
            k_hat = [math.inf if math.isnan(one.k_hat) else one.k_hat for one in judged]
            highest = f"{max(k_hat):.2f} at step {steps[int(np.argmax(k_hat))]}"
            reasons.append(
                f"k-hat was at no two checkpoints running above {judged[0].threshold:.2f} (the highest: {highest})"
                + (", but where the belief was only wide" if any(one.only_wide for one in judged) else "")
            )
        else:
            reasons.append("this agent infers no latent, and so has no belief: only its predictions were looked at")
        if len(running):
            reasons.append(f"of any {RECENT} steps at least {running.min():.0%} lay in the 90 % intervals")
        if compared:
            reasons.append(
                f"the true {', '.join(compared)} did not stay outside the belief's {100 * REGION:.0f} % region"
            )
    return reasons
