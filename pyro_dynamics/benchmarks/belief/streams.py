"""Streams of transitions in several environments at once, acted one time and followed by any number of beliefs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.data_files import read_arrays
from pyro_dynamics.environments import Context, Family, Schedule, numbers
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.contexts import as_context
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import write_whole
from pyro_dynamics.io.reuse import as_stored
from pyro_dynamics.rollouts.acting import Acting, ContextChange, act_and_update
from pyro_dynamics.rollouts.rollout import Step
from pyro_dynamics.seeding import derive_generator, derive_seed

APART = 0.02
"""An unseen context differs from every trained one by this share of the trained range, in one parameter at least."""


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
            Step(t, *row, none, [None] * len(none))  # type: ignore[misc]  # five tensors
            for t, row in enumerate(zip(self.state, self.action, self.next_state, self.reward, self.alive, strict=True))
        ]

    def first(self, environments: int, steps: int) -> "Streams":
        """The first steps of the first environments."""
        return Streams(*(getattr(self, one.name)[:steps, :environments] for one in fields(self)))

    @property
    def returns(self) -> list[float]:
        """Of each environment, ``[K]``."""
        return (self.reward * self.alive).sum(0).tolist()

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
    schedules: Sequence[Schedule],
    steps: int,
    seed: int,
    random: bool = False,
    reset: bool = False,
    on_step: Callable[[], object] = lambda: None,
) -> Streams:
    """Act in all environments in lockstep: a group by its plans, with its beliefs following, or at random.

    Args:
        group: agents with fresh beliefs about as many environments as there are schedules.
        family: of environments.
        schedules: the true context of each by step.
        steps: of each stream, at most.
        seed: names the random streams; the same first states and the same random actions for the same seed.
        random: act at random, without plans and beliefs.
        reset: whether the beliefs return to the prior when the truth changes, as the oracle-reset baseline's.
        on_step: called after each step.
    """
    envs = family.make_vector(schedules, steps)
    seeds = [derive_seed(seed, "belief benchmark", "reset", k) for k in range(len(schedules))]
    acting = Acting(random=random, updates=not random, before_step=ContextChange(group, schedules, reset))
    made = []
    try:
        for step in act_and_update(group, envs, seeds, derive_generator(seed, "belief benchmark", "act"), acting):
            made.append(step)
            on_step()
    finally:
        envs.close()
    # Where all episodes ended before, the streams stand still: then all beliefs are judged after as many steps.
    made += [replace(made[-1], alive=torch.zeros_like(made[-1].alive))] * (steps - len(made))
    return Streams(*(torch.stack([getattr(step, one.name) for step in made]) for one in fields(Streams)))


def kept_file(folder: Path, name: str, settings: Mapping[str, Any], suffix: str) -> Path:
    """A file whose name says what decides its content, so that other settings have another file."""
    digest = sha256(json.dumps(as_stored(settings), sort_keys=True).encode()).hexdigest()[:12]
    return folder / f"{name}-{digest}{suffix}"


def unseen_inside(family: Family, count: int) -> list[Context]:
    """Contexts evenly over the trained range, none of them trained on.

    Of one parameter they are equally far apart, of several they are a Halton sequence; those within 2 % of the range of
    a trained one are left out, and denser ones are tried until enough are left.

    Raises:
        UserError: if the trained contexts leave no room.
    """
    from scipy.stats import qmc  # here, as it takes long

    trained = columns(family.train)
    low, size = trained.min(0), np.ptp(trained, axis=0)
    unit = (trained - low) / np.where(size > 0, size, 1.0)
    for tried in range(count, 50 * count):
        if trained.shape[1] == 1:
            points = (np.arange(tried)[:, None] + 0.5) / tried
        else:
            points = qmc.Halton(trained.shape[1], scramble=False).random(tried + 1)[1:]
        points = np.where(size > 0, points, 0.0)
        new = (np.abs(points[:, None] - unit).max(-1) >= APART).all(1)
        if new.sum() >= count:
            chosen = points[new][np.linspace(0, new.sum() - 1, count).round().astype(int)]
            return [as_context(row) for row in (low + chosen * size).round(6).tolist()]
    raise UserError(f"the trained contexts of {family.name} leave no room for {count} unseen ones between them")


def unseen_outside(family: Family, most: int) -> list[Context]:
    """Test contexts of which a parameter lies outside the trained range, evenly chosen where there are many."""
    trained = columns(family.train)
    different = [one for one in dict.fromkeys(family.test_contexts) if one not in family.train]
    outside = [
        one
        for one in sorted(different, key=numbers)
        if ((columns([one])[0] < trained.min(0)) | (columns([one])[0] > trained.max(0))).any()
    ]
    if len(outside) <= most:
        return outside
    return [outside[i] for i in np.linspace(0, len(outside) - 1, most).round().astype(int)]
