"""One way to update beliefs along given streams: what is believed after each step, and predicted before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.belief.measures import interval
from pyro_dynamics.benchmarks.belief.streams import Streams
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Schedule
from pyro_dynamics.rollouts.acting import Acting, ContextChange, update_beliefs
from pyro_dynamics.rollouts.adaptation import BELIEF_DRAWS
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.seeding import derive_generator


@dataclass(frozen=True)
class Followed:
    """Beliefs about K environments after each of T steps, in the units of P hidden parameters.

    Attributes:
        mean: ``[T, K, P]``.
        low: lower ends of the 90 % intervals, ``[T, K, P]``.
        high: upper ends, ``[T, K, P]``.
        log_predictive: log p(s' | s, a) before each of the first T' steps, in nats, ``[T', K]``; 0 after an end.
        latents: draws of the last belief, ``[n, K, d]``.
        decoded: the same in the parameters' units, ``[n, K, P]``.
        update_ms: CPU time of each update of all K beliefs, ``[T]``.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log_predictive: np.ndarray
    latents: np.ndarray
    decoded: np.ndarray
    update_ms: np.ndarray


def follow(
    group: AgentGroup,
    streams: Streams,
    probe: ContextProbe,
    schedules: Sequence[Schedule],
    seed: int = 0,
    predicted: int = 0,
    reset: bool = False,
    on_step: Callable[[], object] = lambda: None,
) -> Followed:
    """Update a group's beliefs along streams, without acting.

    Args:
        group: one agent with fresh beliefs about K environments.
        streams: of these.
        probe: reads the hidden parameters out of latents; its error is in the intervals, as in those that are printed.
        schedules: the true context of each environment by step.
        seed: names the random streams.
        predicted: of so many first steps the log predictive density is taken.
        reset: whether the beliefs return to the prior when the truth changes, as the oracle-reset baseline's.
        on_step: called after each step.
    """
    agent, everyone = group.agents[0], torch.arange(streams.state.shape[1])
    updating, measuring, reporting = (
        derive_generator(seed, "belief benchmark", name) for name in ("update", "measure", "report")
    )
    change, log_predictive = ContextChange(group, schedules, reset), []

    def predict(step: Step) -> None:
        change(step.index)
        if step.index < predicted:
            observed = step.state, step.action, step.next_state
            nats = agent.log_predictive(*observed, everyone, measuring, samples=BELIEF_DRAWS)
            log_predictive.append(torch.where(step.alive, nats, 0.0).numpy())

    values: dict[str, list[np.ndarray]] = {name: [] for name in ("mean", "low", "high")}
    update_ms: list[float] = []
    for step in update_beliefs(group, streams.steps(), everyone, updating, Acting(before_update=predict)):
        latents: np.ndarray = group.belief_draws(BELIEF_DRAWS, reporting)[0].numpy()
        decoded = probe.predict(latents).reshape(*latents.shape[:2], -1)
        low, high = interval(probe.draws(latents).reshape(decoded.shape))
        for name, value in (("mean", decoded.mean(0)), ("low", low), ("high", high)):
            values[name].append(value)
        update_ms.append(1e3 * step.update.cpu)
        on_step()
    series = {name: np.stack(rows) for name, rows in values.items()}
    nats = np.array(log_predictive).reshape(-1, len(everyone))
    return Followed(**series, log_predictive=nats, latents=latents, decoded=decoded, update_ms=np.array(update_ms))
