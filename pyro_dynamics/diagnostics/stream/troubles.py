"""What may be wrong with a belief over a stretch of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.posterior.importance import Importance
from pyro_dynamics.diagnostics.stream.central_region import REGION
from pyro_dynamics.diagnostics.stream.checks import LOW_COVERAGE, RECENT

OUTSIDE = 10
"""Steps running for which the truth must lie outside the belief's central region before it counts."""


@dataclass(frozen=True)
class Trouble:
    """A stretch of steps over which something is wrong.

    Attributes:
        first: its first step.
        last: its last step.
        kind: ``k-hat``, ``coverage``, ``outside`` or ``not finite``.
        words: for people, with the steps and the numbers.
    """

    first: int
    last: int
    kind: str
    words: str


def wrong_posterior(steps: Sequence[int], judged: Sequence[Importance], since: Sequence[int]) -> list[Trouble]:
    """Stretches over which k-hat is not below its threshold at two checkpoints running or more.

    Where the belief is only over-dispersed it is not wrong, and its draws are too few to say more.

    A change of context begins a new one: the belief is then wrong about another thing. A stretch lasts until the
    checkpoint that is well again; a single one, between others or at the very end, ends nothing.
    """
    change = _change(since)[list(steps)]
    bad = np.array([not one.reliable and not one.only_wide for one in judged])
    found = []
    for start, end in stretches(bad, change, shortest=2, join=1):
        until = steps[end + 1] - 1 if end + 2 < len(steps) else steps[-1]
        words = _words_on_posterior(steps[start], until, judged[start : end + 1])
        found.append(Trouble(steps[start], until, "k-hat", words))
    return found


def _change(since: Sequence[int]) -> np.ndarray:
    """How many changes of context there were up to each step, ``[T]``."""
    return np.cumsum([start == t for t, start in enumerate(since)])


def _words_on_posterior(first: int, last: int, part: Sequence[Importance]) -> str:
    worst = float(np.nanmax([one.k_hat for one in part] + [-np.inf]))
    off = max(float(np.abs(one.shift).max()) for one in part)
    return (
        f"steps {first} to {last}: the belief is not what the steps since the last change say (k-hat up to "
        f"{worst:.2f}, threshold {part[0].threshold:.2f}; its mean is off by {off:.1f} of its standard deviations or "
        "more)"
    )


def not_finite(latent: np.ndarray) -> list[Trouble]:
    """From where on draws of the belief ``[T, S, d]`` are not finite."""
    wrong = np.flatnonzero(~np.isfinite(latent).all(axis=(1, 2)))
    if not len(wrong):
        return []
    return [Trouble(int(wrong[0]), len(latent) - 1, "not finite", f"the belief is not finite after step {wrong[0]}")]


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
    decoded: np.ndarray, error: float, truth: np.ndarray, parameter: str, since: Sequence[int]
) -> list[Trouble]:
    """Stretches over which the truth ``[T]`` is farther outside the decoded region ``[3, T]`` than the probe errs."""
    low, _, high = decoded
    beyond = np.maximum(low - truth, truth - high)
    found = []
    for first, last in stretches(beyond > error, _change(since), shortest=OUTSIDE, join=OUTSIDE):
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
