"""The streams of the benchmark: contexts that stay, contexts that change, and contexts that come again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.benchmarks.belief.unseen import unseen_inside, unseen_outside
from pyro_dynamics.environments import Context, Family, Schedule, numbers
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.example_schedule import example_schedule

INSIDE, OUTSIDE = 12, 6
"""Unseen contexts within the trained range, and at most so many test contexts outside of it."""


@dataclass(frozen=True)
class Trial:
    """Environments that are run together.

    Attributes:
        name: of the trial.
        schedules: the true context of each of K environments by step.
        groups: of each environment what it shows.
        steps: of each stream.
        begins: the steps at which an episode begins; beliefs stay from one to the next.
    """

    name: str
    schedules: tuple[Schedule, ...]
    groups: tuple[str, ...]
    steps: int
    begins: tuple[int, ...] = (0,)

    @property
    def starts(self) -> list[Context]:
        """The first context of each environment."""
        return [schedule.at(0) for schedule in self.schedules]

    def truth(self) -> np.ndarray:
        """The true parameters by step, ``[T, K, P]``."""
        return np.array([[numbers(one.at(t)) for one in self.schedules] for t in range(self.steps)])

    def rows(self, group: str) -> list[int]:
        """The environments of a group."""
        return [k for k, name in enumerate(self.groups) if name == group]


def steady_trial(family: Family, steps: int, _: int = 2) -> Trial:
    """Unseen contexts that stay, in two episodes each: the first ones of all, then the second ones."""
    inside, outside = unseen_inside(family, INSIDE), unseen_outside(family, OUTSIDE)
    schedules = [Schedule.constant(context) for context in (*inside, *outside)]
    groups = ["inside"] * len(inside) + ["outside"] * len(outside)
    return Trial("steady", (*schedules, *schedules), (*groups, *groups), steps)


def change_trial(family: Family, steps: int, episodes: int) -> Trial:
    """A change over twice the steps, in both directions."""
    (_, a), (step, b) = change_within(family, 2 * steps).changes
    both = Schedule(((0, a), (step, b))), Schedule(((0, b), (step, a)))
    return Trial("change", tuple(one for one in both for _ in range(episodes)), ("change",) * 2 * episodes, 2 * steps)


def change_within(family: Family, steps: int) -> Schedule:
    """The family's example schedule; where that leaves the trained range, between two unseen contexts within it.

    Those are the two of :func:`.unseen_inside` that are farthest apart, each parameter in units of its range.
    """
    schedule = example_schedule(family, steps)
    ends = [context for _, context in schedule.changes]
    trained = columns(family.train)
    within = ((columns(ends) >= trained.min(0)) & (columns(ends) <= trained.max(0))).all()
    if within and schedule.last_change:
        return schedule
    inside = unseen_inside(family, INSIDE)
    places = columns(inside) / scale_of(family)
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    one, other = (inside[i] for i in sorted(np.unravel_index(apart.argmax(), apart.shape)))
    return Schedule(((0, one), (max(steps // 5, 1), other)), steps)


def stay_trial(family: Family, steps: int, episodes: int) -> Trial:
    """The two contexts of that schedule for as long, without a change."""
    starts = change_trial(family, steps, episodes).starts
    return Trial("stay", tuple(map(Schedule.constant, starts)), ("stay",) * len(starts), 2 * steps)


def recall_trial(family: Family, steps: int, episodes: int) -> Trial:
    """Episodes of half the steps in a, b, a and b: the contexts of the change, and the trained ones next to them.

    Each visit is an episode of its own: later in an episode a robot may stand still, and then nothing is observed by
    which a context could be recognised.
    """
    a, b = (context for _, context in change_within(family, 2 * steps).changes)
    half, made = max(steps // 2, 1), []
    for name, (first, second) in {"unseen": (a, b), "trained": trained_pair(family, a, b)}.items():
        there = Schedule(((0, first), (half, second), (2 * half, first), (3 * half, second)))
        made += [(there, name)] * episodes
    schedules, groups = zip(*made, strict=True)
    return Trial("recall", schedules, groups, 4 * half, tuple(range(0, 4 * half, half)))


def known_trial(family: Family, steps: int, _: int = 0) -> Trial:
    """New episodes in the environments that were trained on."""
    schedules = tuple(map(Schedule.constant, family.train))
    return Trial("known", schedules, ("known",) * len(schedules), 2 * steps)


def trained_pair(family: Family, a: Context, b: Context) -> tuple[Context, Context]:
    """The trained contexts nearest to two others, and different from each other."""
    trained = columns(family.train)
    size = np.where(np.ptp(trained, axis=0) > 0, np.ptp(trained, axis=0), 1.0)
    order = np.linalg.norm((trained - columns([a])[0]) / size, axis=1).argsort()
    first = int(order[0])
    again = np.linalg.norm((trained - columns([b])[0]) / size, axis=1).argsort()
    return family.train[first], family.train[int(next(k for k in again if k != first))]


def scale_of(family: Family) -> np.ndarray:
    """By which each parameter is measured: its trained range, ``[P]``."""
    size: np.ndarray = np.ptp(columns(family.train), axis=0)
    return np.where(size > 0, size, 1.0)


def pairs(rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """The first and the second episodes of the same contexts."""
    half = len(rows) // 2
    return list(rows[:half]), list(rows[half:])


TRIALS: dict[str, Callable[[Family, int, int], Trial]] = {
    "steady": steady_trial,
    "change": change_trial,
    "stay": stay_trial,
    "recall": recall_trial,
    "known": known_trial,
}
"""Each made out of a family, the steps of a stream, and the streams of each schedule."""
