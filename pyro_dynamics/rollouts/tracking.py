"""How well a belief follows a change: steps to recover, return, coverage and time, of one way to update it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.prediction.predictive import coverage
from pyro_dynamics.rollouts.adaptation import adapt

SHARE = 0.9
"""A belief has recovered when it has made this share of the move, from where it was to where it can go."""
SUSTAINED = 5
"""For this many steps running."""
SETTLED = 20
"""The mean over this many last steps is where a told agent's belief ends."""


@dataclass(frozen=True)
class Track:
    """One way to update beliefs along one schedule, for S robots (seeds), until the last robot's episode ends.

    A robot whose episode ended before is rewarded no more, and its belief stays; its coverage means nothing then.

    Attributes:
        decoded: the belief's mean, read by the linear probe, in the context's unit, ``[S][T]``.
        spread: its standard deviation, ``[S][T]``.
        reward: ``[S][T]``.
        inside: share of the predicted dimensions inside the network's own central 90 % intervals, ``[S][T]``.
        inside_adaptive: share inside the intervals whose width follows what happens, ``[S][T]``.
        update_ms: processor time of one update of all S beliefs, in milliseconds, the mean over the steps.
    """

    decoded: list[list[float]]
    spread: list[list[float]]
    reward: list[list[float]]
    inside: list[list[float]]
    inside_adaptive: list[list[float]]
    update_ms: float

    def as_json(self) -> dict[str, Any]:
        """Plain data, rounded to what is worth keeping."""
        return {
            key: [[round(number, 4) for number in row] for row in value] if isinstance(value, list) else value
            for key, value in asdict(self).items()
        }


def track(
    group: AgentGroup,
    robots: VectorEnv,
    probe: ContextProbe,
    seed: int,
    before_step: Callable[[int], object] | None,
    on_step: Callable[[], object],
) -> Track:
    """Act in all environments in lockstep, and follow the beliefs.

    Args:
        group: one agent over as many environments as there are, with fresh beliefs.
        robots: environments with the same schedule.
        probe: reads latents.
        seed: names the random streams.
        before_step: for the oracle-reset baseline, see :class:`~pyro_dynamics.rollouts.acting.ContextChange`.
        on_step: called after each step.
    """
    decoded, spread, reward, inside, adaptive, seconds = [], [], [], [], [], 0.0
    for step in adapt(group, robots, seed, before_step=before_step):
        decoded.append(probe.predict(step.mean.numpy()))
        spread.append(probe.spread(step.scale.numpy()))
        reward.append((step.reward * step.alive).numpy())
        inside.append(coverage(step.pit).numpy())
        adaptive.append(step.inside.float().mean(-1).numpy())
        seconds += step.update.cpu
        on_step()
    series = {"decoded": decoded, "spread": spread, "reward": reward, "inside": inside, "inside_adaptive": adaptive}
    columns = {name: np.stack(rows, 1).tolist() for name, rows in series.items()}
    return Track(**columns, update_ms=1e3 * seconds / len(decoded))


def steps_to_recover(decoded: np.ndarray, change: int, goal: float) -> int | None:
    """Steps after ``change`` until the belief ``[T]`` has made 90 % of the move to ``goal``, for five steps running.

    Args:
        decoded: the belief in the context's unit; the move begins at its value just before the change.
        change: the step at which the context changed.
        goal: where an agent that was told of the change ends, which is what the data allow.

    Returns:
        None if it has not recovered before the end.
    """
    old = decoded[change - 1]
    arrived = (decoded[change:] - old) / (goal - old) >= SHARE
    runs = np.convolve(arrived, np.ones(SUSTAINED), mode="valid") >= SUSTAINED
    return int(runs.argmax()) + 1 if runs.any() else None


def summarise(track: Track, change: int | None, truth: float, told: Track | None, settle: int) -> dict[str, Any]:
    """Figures of one track: recovery, return, and coverage before and after the last change.

    Args:
        track: what happened.
        change: the step of the one change, or None.
        truth: what the beliefs should come to.
        told: the track of the agent that was told of the change, if there was one; without it the goal is the truth.
        settle: steps at the start that do not count for the coverage: the belief is being found.
    """
    reward, decoded = np.array(track.reward), np.array(track.decoded)
    result: dict[str, Any] = {"return": reward.sum(1).tolist(), "update_ms": track.update_ms}
    for name in ("inside", "inside_adaptive"):
        inside = np.array(getattr(track, name))
        result[f"{name}_before"] = float(inside[:, settle:change].mean())
        result[f"{name}_after"] = None if change is None else float(inside[:, change:].mean())
    if change is None:
        return result
    goals = [truth] * len(decoded)
    if told is not None:
        goals = np.array(told.decoded)[:, -SETTLED:].mean(1).tolist()
    return {
        **result,
        "recovery": [steps_to_recover(row, change, goal) for row, goal in zip(decoded, goals, strict=True)],
        "decoded_before": decoded[:, change - 1].tolist(),
        "decoded_end": decoded[:, -1].tolist(),
        "return_after": reward[:, change:].sum(1).tolist(),
    }
