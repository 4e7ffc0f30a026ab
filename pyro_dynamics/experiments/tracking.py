"""How well a belief follows a change: steps to recover, return, coverage and time, of one way to update it."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from pyro_dynamics.diagnostics import ContextProbe
from pyro_dynamics.diagnostics.predictive import coverage
from pyro_dynamics.environments import Schedule
from pyro_dynamics.experiments.adaptation import adapt
from pyro_dynamics.experiments.team import Team

SHARE = 0.9
"""A belief has recovered when it has made this share of the move, from the old context to the new one."""
SUSTAINED = 5
"""For this many steps running: a belief that swings past has not arrived."""


@dataclass(frozen=True)
class Track:
    """One way to update beliefs along one schedule, for S robots (seeds).

    Attributes:
        decoded: the belief's mean, read by the linear probe, in the context's unit, ``[S][T]``.
        spread: its standard deviation, ``[S][T]``.
        reward: ``[S][T]``.
        inside: share of the predicted dimensions that fell inside their central 90 % interval, ``[S][T]``.
        update_ms: processor time of one update of all S beliefs, in milliseconds, the mean over the steps.
    """

    decoded: list[list[float]]
    spread: list[list[float]]
    reward: list[list[float]]
    inside: list[list[float]]
    update_ms: float

    def as_json(self) -> dict[str, Any]:
        """Plain data, rounded to what is worth keeping."""
        return {
            key: [[round(number, 4) for number in row] for row in value] if isinstance(value, list) else value
            for key, value in asdict(self).items()
        }


def track(
    team: Team,
    robots: VectorEnv,
    probe: ContextProbe,
    seed: int,
    told_at: int | None,
    on_step: Callable[[], object],
) -> Track:
    """Act with all robots in lockstep, and follow their beliefs.

    Args:
        team: one agent over as many environments as there are robots, with fresh beliefs.
        robots: environments with the same schedule.
        probe: reads latents.
        seed: names the random streams.
        told_at: the step at which the agent is told that everything has changed, and returns to its first belief.
        on_step: called after each step.
    """
    agent = team.agents[0]
    clock = _Stopwatch(agent.belief.update)
    agent.belief.update = clock  # type: ignore[method-assign]

    def tell(step: int) -> None:
        if step == told_at:
            agent.belief.forget()

    decoded, spread, reward, inside = [], [], [], []
    for step in adapt(team, robots, seed, before_step=tell):
        decoded.append(probe.predict(step.mean.numpy()))
        spread.append(probe.spread(step.scale.numpy()))
        reward.append(step.reward.numpy())
        inside.append(coverage(step.pit).numpy())
        on_step()
    columns = [np.stack(rows, 1).tolist() for rows in (decoded, spread, reward, inside)]
    return Track(*columns, update_ms=1e3 * clock.seconds / len(decoded))


class _Stopwatch:
    """Sums the processor time of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        start = time.process_time()
        result = self.function(*arguments)
        self.seconds += time.process_time() - start
        return result


def steps_to_recover(decoded: np.ndarray, change: int, old: float, new: float) -> int | None:
    """Steps after ``change`` until the belief ``[T]`` has come, and stays, within 10 % of the move to the new context.

    Args:
        decoded: the belief in the context's unit.
        change: the step at which the context changed.
        old: the context before.
        new: the context after.

    Returns:
        None if it has not recovered before the end.
    """
    near = np.abs(decoded[change:] - new) <= (1 - SHARE) * abs(new - old)
    runs = np.convolve(near, np.ones(SUSTAINED), mode="valid") >= SUSTAINED
    return int(runs.argmax()) + 1 if runs.any() else None


def summarise(track: Track, schedule: Schedule, settle: int = 50) -> dict[str, Any]:
    """Figures of one track: recovery, return and coverage before and after the last change.

    Args:
        track: what happened.
        schedule: with one change or none.
        settle: steps at the start that do not count for the coverage before the change: the belief is being found.
    """
    change = schedule.changes[-1][0] or None
    inside, reward = np.array(track.inside), np.array(track.reward)
    result: dict[str, Any] = {
        "return": reward.sum(1).tolist(),
        "coverage_before": float(inside[:, settle:change].mean()),
        "update_ms": track.update_ms,
    }
    if change is None:
        return result
    old, new = float(schedule.changes[-2][1]), float(schedule.changes[-1][1])
    decoded = np.array(track.decoded)
    return {
        **result,
        "recovery": [steps_to_recover(row, change, old, new) for row in decoded],
        "decoded_before": decoded[:, change - 1].tolist(),
        "decoded_end": decoded[:, -1].tolist(),
        "return_after": reward[:, change:].sum(1).tolist(),
        "coverage_after": float(inside[:, change:].mean()),
    }
