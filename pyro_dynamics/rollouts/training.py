"""Algorithm 1: rounds of training and of one episode in every environment."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.collapse import collapse_gap
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.acting import Acting, act_and_update
from pyro_dynamics.rollouts.fault_log import Faults
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.rollouts.training_environments import RoundEnvironments, TrainingEnvironments
from pyro_dynamics.seeding import derive_generator, derive_seed
from pyro_dynamics.transitions import Transitions

Row = dict[str, Any]
"""One line of ``metrics.jsonl``: a round in one environment."""


def train(
    group: AgentGroup,
    environments: TrainingEnvironments,
    data: list[Transitions],
    rounds: int,
    seed: int,
    update_while_training: bool,
    calibrate: bool,
    on_round: Callable[[int, Transitions, list[Row]], None],
    progress: Any,
) -> None:
    """Learning with model predictive control (Algorithm 1).

    Round 0 acts at random; each later round trains on all data so far and then runs an episode in
    every environment.

    Args:
        group: the agents.
        environments: to act in, which stay the same or are new ones in every round.
        data: the transitions of each round so far; training resumes after them, and appends to the list.
        rounds: the last round.
        seed: names the random streams.
        update_while_training: update the beliefs after each step of a training episode too, as Algorithm 1 has it.
        calibrate: fit the predicted noise to each round's new episodes, for whoever uses the checkpoint.
        on_round: called with each finished round, its transitions and its metrics.
        progress: shown rounds, epochs and steps, see :class:`~pyro_dynamics.rollouts.progress.Progress`.

    Raises:
        UserError: if all environments break in one round; it is kept if any of them made a step before.
    """
    faults = Faults()
    for m in range(len(data), rounds + 1):
        draws = derive_generator(seed, "round", m, "actions")
        if m > 0:
            progress.training(m)
            group.train(Transitions.concatenate(data), derive_generator(seed, "round", m, "training"), progress.epoch)
        here = environments.begin(m, group)
        count = here.envs.num_envs
        environment = torch.arange(count) % len(here.contexts)
        seeds = [derive_seed(seed, "round", m, "reset", i) for i in range(count)]
        updates = m > 0 and (update_while_training or here.new)
        acting = Acting(environment, random=m == 0, updates=updates, on_fault=faults)
        steps = []
        faults.begin()
        progress.acting(here.contexts)
        for step in act_and_update(here.group, here.envs, seeds, draws, acting):
            steps.append(step)
            progress.step(m, step)
        if steps:
            episodes = record(steps, here.first + environment)
            environments.finish(m, group, episodes)
            if m > 0 and calibrate:  # the networks were not trained on them yet
                calibration = derive_generator(seed, "round", m, "calibration")
                believed = [*data, episodes] if here.new else data
                group.calibrate(Transitions.concatenate(believed), episodes, calibration)
            on_round(m, episodes, _metrics(group, episodes, here, m, faults))
            data.append(episodes)
        if len(faults.now) == count:
            raise UserError(
                f"every environment broke in round {m}, the first so: {faults.now[0]}; mend that, and resume by "
                "train --resume, with all steps that were made before"
            )


def record(steps: Sequence[Step], environment: torch.Tensor) -> Transitions:
    """The transitions of the steps in which each environment was alive."""
    environments = len(environment)
    everything = Transitions(
        torch.cat([step.state for step in steps]),
        torch.cat([step.action for step in steps]),
        torch.cat([step.next_state for step in steps]),
        torch.cat([step.reward for step in steps]),
        environment.repeat(len(steps)),
        torch.arange(len(steps)).repeat_interleave(environments),
    )
    return everything.select(torch.cat([step.alive for step in steps]))


def _metrics(group: AgentGroup, episodes: Transitions, here: RoundEnvironments, m: int, faults: Faults) -> list[Row]:
    """One row for each environment: mean return, belief, and how well the model predicted these episodes."""
    mean, scale = group.beliefs()
    simulated, environments = here.envs.num_envs, len(here.contexts)
    count = simulated // environments
    right, wrong = latent_gaps(group, episodes) if m > 0 else ({}, {})
    return [
        {
            "round": m,
            "environment": k,
            "context": context,
            "policy": "mpc" if m else "random",
            "return": float(episodes.reward[episodes.environment == k].double().sum()) / count,
            "episodes": count,
            "steps": int((episodes.environment == k).sum()),
            "latent_mean": mean[k].tolist() if m else None,
            "latent_sd": scale[k].tolist() if m else None,
            "log_likelihood": right.get(k),
            "log_likelihood_wrong_latent": wrong.get(k),
            **faults.of(list(range(k - here.first, simulated, environments))),
        }
        for k, context in enumerate(here.contexts, here.first)
    ]


def latent_gaps(group: AgentGroup, episodes: Transitions) -> tuple[dict[int, float], dict[int, float]]:
    """Log-likelihood by environment under right and under wrong latents; the episodes were not trained on yet."""
    right: dict[int, float] = {}
    wrong: dict[int, float] = {}
    there = set(episodes.environment.tolist())  # all, unless an environment broke before its first step
    for agent, share in zip(group.agents, group.shares, strict=True):
        if there.isdisjoint(share):
            continue
        own, others = collapse_gap(agent, episodes.of(share))
        right |= {k: value for k, value in zip(share, own.tolist(), strict=True) if k in there}
        if others is not None:
            wrong |= {k: value for k, value in zip(share, others.tolist(), strict=True) if k in there}
    return right, wrong
