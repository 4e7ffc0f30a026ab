"""Whether the hidden parameter acts at all, and in mid-episode, seen on a few random steps before the training."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.seeding import derive_seed

STEPS = 100
"""At most so many random steps; as a rule the first few show it."""


def check_context(family: Family, seed: int, length: int, step_limit: float | None = None) -> str:
    """Compare a context with another one, and with a change to it at step 1, under the same start and actions.

    Args:
        family: of several training contexts; of one alone nothing is known.
        seed: names the random streams.
        length: steps that an episode should have.
        step_limit: seconds that a step may take.

    Returns:
        A warning where the hidden parameter changes nothing, or changes nothing in mid-episode; else nothing. What
        breaks is left to the check of the task.
    """
    first, last = family.train[0], family.train[-1]
    if first == last:
        return ""
    ways = Schedule.constant(first), Schedule.constant(last), Schedule(((0, first), (1, last)))
    envs: list[gymnasium.Env] = []
    try:
        envs += [family.make(way, length) for way in ways]
        limit_steps(envs, step_limit)
        made, changed, steps = _apart(envs, seed)
    except (UserError, EnvironmentFault):
        return ""
    finally:
        for env in envs:
            env.close()
    return _words(family, first, last, made, changed, steps)


def _apart(envs: Sequence[gymnasium.Env], seed: int) -> tuple[bool, bool, int]:
    """Whether the second and the third do other things than the first, and after how many steps that is known."""
    space: Any = envs[0].action_space
    low, high = np.asarray(space.low), np.asarray(space.high)
    rng = np.random.default_rng(derive_seed(seed, "context check", "actions"))
    seen: list[tuple[Any, ...]] = [env.reset(seed=derive_seed(seed, "context check", "reset"))[:1] for env in envs]
    made, changed, steps = _other(seen[0], seen[1]), False, 0
    while steps < STEPS:
        steps += 1
        action = rng.uniform(low, high).astype(space.dtype)
        seen = [env.step(action)[:4] for env in envs]
        made, changed = made or _other(seen[0], seen[1]), changed or _other(seen[0], seen[2])
        if (made and changed) or any(one[2] or one[3] for one in seen):
            break
    return made, changed, steps


def _other(one: Sequence[Any], another: Sequence[Any]) -> bool:
    return not all(np.array_equal(part, other) for part, other in zip(one, another, strict=True))


def _words(family: Family, first: Context, last: Context, made: bool, changed: bool, steps: int) -> str:
    name = ", ".join(family.parameters)
    if not made and not changed:
        return (
            f"{name} changes nothing: {label(first)} and {label(last)} give the same observations and rewards in "
            f"{steps} random steps; if the environment does not use it, nothing can be inferred about it"
        )
    if not changed and steps > 1:
        return (
            f"{name} changes nothing in mid-episode: environments made with {label(first)} and {label(last)} differ, "
            f"and one that goes from one to the other at step 1 does what it did before, in {steps} random steps; a "
            f"schedule would do nothing: let step() use {name}, and not numbers computed from it before"
        )
    return ""
