"""How well a belief follows a change: recovery, return, coverage, time and verdict of one way to update it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.prediction.predictive import coverage
from pyro_dynamics.diagnostics.verdict import Verdict
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.rollouts.adaptation import BELIEF_DRAWS, AdaptationStep, adapt
from pyro_dynamics.rollouts.adaptation_summary import as_row
from pyro_dynamics.transitions import Transitions

OBSERVED = ("state", "action", "next_state", "reward")

SHARE = 0.9
"""A belief has recovered when it has made this share of the move, from where it was to where it can go."""
SUSTAINED = 5
"""For this many steps running."""
SETTLED = 20
"""The mean over this many last steps is where the oracle-reset baseline's belief ends."""


@dataclass(frozen=True)
class Track:
    """One way to update beliefs along one schedule, in S environments (seeds), until the last episode ends.

    After an episode's end there is no reward, and the belief stays; the coverage means nothing then.

    Attributes:
        decoded: the belief's mean, read by the linear probe, in the context's unit, ``[S][T]``.
        spread: its standard deviation, ``[S][T]``.
        reward: ``[S][T]``.
        inside: share of the predicted dimensions inside the network's own central 90 % intervals, ``[S][T]``.
        width: the factor on the width of these intervals with which they would cover 90 %, ``[S][T]``: that of adaptive
            intervals, which cover 90 % by construction, whatever the belief is.
        update_ms: CPU time of one update of all S beliefs, in milliseconds, the mean over the steps.
        verdicts: about each of the S streams at its end, as ``adapt`` and ``diagnose`` would give it.
    """

    decoded: list[list[float]]
    spread: list[list[float]]
    reward: list[list[float]]
    inside: list[list[float]]
    width: list[list[float]]
    update_ms: float
    verdicts: list[dict[str, Any]]


def track(
    group: AgentGroup,
    envs: VectorEnv,
    probe: ContextProbe,
    seed: int,
    judge: Callable[[Adaptation], Verdict],
    before_step: Callable[[int], object] | None,
    on_step: Callable[[], object],
) -> Track:
    """Act in all environments in lockstep, and follow the beliefs.

    Args:
        group: one agent over as many environments as there are, with fresh beliefs.
        envs: S environments with the same schedule.
        probe: reads latents.
        seed: names the random streams.
        judge: gives the verdict about each of the S streams at its end.
        before_step: for the oracle-reset baseline, see :class:`~pyro_dynamics.rollouts.acting.ContextChange`.
        on_step: called after each step.
    """
    steps = []
    for step in adapt(group, envs, seed, before_step=before_step, belief_draws=BELIEF_DRAWS):
        steps.append(step)
        on_step()
    series = {
        "decoded": [probe.predict(step.mean.numpy()) for step in steps],
        "spread": [probe.spread(step.scale.numpy()) for step in steps],
        "reward": [(step.reward * step.alive).numpy() for step in steps],
        "inside": [coverage(step.pit).numpy() for step in steps],
        "width": [step.factor.log().mean(-1).exp().numpy() for step in steps],
    }
    columns = {name: np.stack(rows, 1).tolist() for name, rows in series.items()}
    seconds = sum(step.update.cpu for step in steps)
    belief = group.agents[0].belief
    online = {"temperature": belief.temperature, "belief_per": "member" if belief.members > 1 else "ensemble"}
    verdicts = [asdict(judge(adaptation_of(steps, k, online))) for k in range(envs.num_envs)]
    return Track(**columns, update_ms=1e3 * seconds / len(steps), verdicts=verdicts)


def adaptation_of(steps: Sequence[AdaptationStep], k: int, online: dict[str, Any]) -> Adaptation:
    """The stream of environment k alone, until its episode ends, as ``adapt`` would have it."""
    alive = [step for step in steps if step.alive[k]]
    observed = {name: torch.stack([getattr(step, name)[k] for step in alive]) for name in OBSERVED}
    count = len(alive)
    return Adaptation(
        [as_row(step, k) for step in alive],
        Transitions(**observed, environment=torch.zeros(count, dtype=torch.long), step=torch.arange(count)),
        torch.stack([step.draws[:, k] for step in alive]).numpy(),
        torch.stack([step.log_q[:, k] for step in alive]).float().numpy(),
        {"online": online},
    )


def steps_to_recover(decoded: np.ndarray, change: int, goal: float) -> int | None:
    """Steps after ``change`` until the belief ``[T]`` has made 90 % of the move to ``goal``, for five steps running.

    Args:
        decoded: the belief in the context's unit; the move begins at its value just before the change.
        change: the step at which the context changed.
        goal: where the belief of the oracle-reset baseline ends, which is what the data allow.

    Returns:
        None if it has not recovered before the end.
    """
    old = decoded[change - 1]
    arrived = (decoded[change:] - old) / (goal - old) >= SHARE
    runs = np.convolve(arrived, np.ones(SUSTAINED), mode="valid") >= SUSTAINED
    return int(runs.argmax()) + 1 if runs.any() else None


def summarise(track: Track, change: int | None, truth: float, reset: Track | None, settle: int) -> dict[str, Any]:
    """Figures of one track: recovery, return, and coverage and width of intervals before and after the last change.

    Args:
        track: what was observed.
        change: the step of the one change, or None.
        truth: what the beliefs should come to.
        reset: the track of the oracle-reset baseline, if there is one; without it the goal is the truth.
        settle: steps at the start that do not count for the coverage: the belief is being found.
    """
    reward, decoded = np.array(track.reward), np.array(track.decoded)
    result: dict[str, Any] = {"return": reward.sum(1).tolist(), "update_ms": track.update_ms}
    result["verdicts"] = [one["word"] for one in track.verdicts]
    inside, log_width = np.array(track.inside), np.log(track.width)
    result["inside_before"] = float(inside[:, settle:change].mean())
    result["inside_after"] = None if change is None else float(inside[:, change:].mean())
    result["width_before"] = float(np.exp(log_width[:, settle:change].mean()))
    result["width_after"] = None if change is None else float(np.exp(log_width[:, change:].mean()))
    if change is None:
        return result
    goals = [truth] * len(decoded)
    if reset is not None:
        goals = np.array(reset.decoded)[:, -SETTLED:].mean(1).tolist()
    return {
        **result,
        "recovery": [steps_to_recover(row, change, goal) for row, goal in zip(decoded, goals, strict=True)],
        "decoded_before": decoded[:, change - 1].tolist(),
        "decoded_end": decoded[:, -1].tolist(),
        "return_after": reward[:, change:].sum(1).tolist(),
    }
