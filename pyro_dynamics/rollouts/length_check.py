"""Whether episodes are as long as they should be, or an environment cuts them by a limit of its own."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from pyro_dynamics.environments.layers import layers
from pyro_dynamics.rollouts.rollout import Step

STEPS = 100
"""At most so many random steps of each environment are looked at before the training."""


def compare_length(steps: Sequence[Step], envs: VectorEnv, length: int) -> str:
    """A warning if the environment cuts episodes before their length by a limit of its own; else nothing.

    Rounds are then shorter than asked for, and a change that is scheduled for later never comes.
    """
    limits = [limit for env in getattr(envs, "envs", ()) for limit in _own_limits(env)]
    cut = [one.index + 1 for one, later in pairwise(steps) if (one.alive & ~later.alive & ~one.terminated).any()]
    if len(steps) < min(STEPS, length) and (steps[-1].alive & ~steps[-1].terminated).any():
        cut.append(len(steps))
    shortest = min([*limits, *cut], default=length)
    return _cut_after(shortest, length) if shortest < length else ""


def compare_whole_length(last: Step | None, envs: VectorEnv, length: int) -> str:
    """The same after the last step of a whole round, where the limit lies beyond those random steps."""
    steps = 0 if last is None else last.index + 1
    limited = any(min(_own_limits(env), default=length) < length for env in getattr(envs, "envs", ()))
    cut = last is not None and bool((last.alive & ~last.terminated).any())
    return _cut_after(steps, length) if cut and not limited and STEPS < steps < length else ""


def _cut_after(steps: int, length: int) -> str:
    return (
        f"the environment cuts its episodes itself after {steps} steps, so that none has the {length} of --steps, "
        f"and a change that is scheduled for later never comes: take its limit off, or give --steps {steps}"
    )


def _own_limits(env: Any) -> list[int]:
    """The limits of the TimeLimit wrappers below our own."""
    return [int(layer._max_episode_steps) for layer in layers(env) if isinstance(layer, TimeLimit)]
