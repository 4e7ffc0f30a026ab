"""Streams of transitions in several environments at once, acted one time and followed by any number of beliefs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.belief.trials import Trial
from pyro_dynamics.data_files import read_arrays
from pyro_dynamics.environments import Family, Schedule
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_whole
from pyro_dynamics.io.reuse import as_stored
from pyro_dynamics.rollouts.acting import Acting, ContextChange, act_and_update
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.seeding import derive_generator, derive_seed
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class Streams:
    """T steps in each of K environments in lockstep.

    Attributes:
        state: before each step, ``[T, K, S]``.
        action: ``[T, K, A]``.
        next_state: ``[T, K, S]``.
        reward: ``[T, K]``.
        alive: ``[T, K]``, false for what comes after the end of an episode, and means nothing.
    """

    state: Tensor
    action: Tensor
    next_state: Tensor
    reward: Tensor
    alive: Tensor

    def __len__(self) -> int:
        return len(self.state)

    def steps(self) -> list[Step]:
        """As the loop of acting and updating takes them."""
        none = torch.zeros_like(self.alive[0])
        return [
            Step(t, *row, none, [None] * len(none))
            for t, row in enumerate(zip(self.state, self.action, self.next_state, self.reward, self.alive, strict=True))
        ]

    def first(self, environments: int, steps: int) -> "Streams":
        """The first steps of the first environments."""
        return Streams(*(getattr(self, one.name)[:steps, :environments] for one in fields(self)))

    @property
    def returns(self) -> list[float]:
        """Of each environment, ``[K]``."""
        return (self.reward * self.alive).sum(0).tolist()

    def transitions(self) -> Transitions:
        """Of all environments, without what comes after the end of an episode."""
        steps, environments = self.alive.shape
        flat = {name: getattr(self, name).flatten(0, 1) for name in ("state", "action", "next_state", "reward")}
        environment = torch.arange(environments).repeat(steps)
        step = torch.arange(steps).repeat_interleave(environments)
        return Transitions(**flat, environment=environment, step=step).select(self.alive.flatten())

    def save(self, file: Path) -> None:
        """Write the arrays whole."""
        arrays = {one.name: getattr(self, one.name).numpy() for one in fields(self)}
        write_whole(file, lambda there: np.savez(there, **arrays))

    @classmethod
    def load(cls, file: Path) -> "Streams":
        """Read back what :meth:`save` wrote.

        Raises:
            UserError: if the file holds something else.
        """
        try:
            arrays = read_arrays(file, [one.name for one in fields(cls)])
            found = cls(**{name: torch.from_numpy(value) for name, value in arrays.items()})
            if len({tuple(value.shape[:2]) for value in vars(found).values()}) != 1 or found.alive.dtype != torch.bool:
                raise ValueError("its arrays do not belong together")
            return found
        except (OSError, ValueError, TypeError) as fault:
            raise UserError(f"{file} does not hold streams ({fault}): delete it, and it is made again") from None


def act(
    group: AgentGroup,
    family: Family,
    trial: Trial,
    seed: int,
    random: bool = False,
    reset: bool = False,
    on_step: Callable[[], object] = lambda: None,
) -> Streams:
    """Act in all environments of a trial in lockstep: a group by its plans, with its beliefs following, or at random.

    Args:
        group: agents with fresh beliefs about the trial's environments.
        family: of environments.
        trial: what they go through.
        seed: names the random streams; the same first states and the same random actions for the same seed.
        random: act at random, without plans and beliefs.
        reset: whether the beliefs return to the prior when the truth changes, as the oracle-reset baseline's.
        on_step: called after each step.
    """
    change, made = ContextChange(group, trial.schedules, reset), list[Step]()
    contexts = [[schedule.at(begin) for schedule in trial.schedules] for begin in trial.begins]
    for episode, (begin, end) in enumerate(pairwise((*trial.begins, trial.steps))):
        envs = family.make_vector([later(one, begin) for one in trial.schedules], end - begin)
        # What comes again begins in the same states, with the same random actions: visits differ by what is known.
        first = contexts.index(contexts[episode])
        seeds = [derive_seed(seed, "belief benchmark", "reset", first, k) for k in range(envs.num_envs)]
        draws = derive_generator(seed, "belief benchmark", "act", first)
        acting = Acting(random=random, updates=not random, before_step=lambda t, begin=begin: change(begin + t))  # type: ignore[misc]
        try:
            for step in act_and_update(group, envs, seeds, draws, acting):
                made.append(step)
                on_step()
        finally:
            envs.close()
        # Where all ended before, the streams stand still: then all beliefs are judged after as many steps.
        made += [replace(made[-1], alive=torch.zeros_like(made[-1].alive))] * (end - len(made))
    return Streams(*(torch.stack([getattr(step, one.name) for step in made]) for one in fields(Streams)))


def later(schedule: Schedule, begin: int) -> Schedule:
    """What is left of a schedule from a step on."""
    after = [(step - begin, context) for step, context in schedule.changes if step > begin]
    return Schedule(((0, schedule.at(begin)), *after))


def kept_file(folder: Path, name: str, settings: Mapping[str, Any], suffix: str) -> Path:
    """A file whose name says what decides its content, so that other settings have another file."""
    digest = sha256(json.dumps(as_stored(settings), sort_keys=True).encode()).hexdigest()[:12]
    return folder / f"{name}-{digest}{suffix}"
