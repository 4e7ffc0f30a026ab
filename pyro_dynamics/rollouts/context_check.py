"""Whether the hidden parameter acts at all, and in mid-episode, seen on a few random steps before the training."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from pyro_dynamics.environments import Context, Family, Schedule
from pyro_dynamics.environments.checked_env import limit_steps
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.layers import layers
from pyro_dynamics.environments.schedule import ScheduledContext
from pyro_dynamics.errors import EnvironmentFault, UserError
from pyro_dynamics.seeding import derive_seed

STEPS = 100
"""At most so many random steps; as a rule the first few show it."""
FEW = 5
"""Steps after a change before the first one; more would let a chaotic system drift apart."""
REST = 1e-4
"""Differences of no more than this are none: a solver may begin elsewhere."""
PARTLY = 0.05
"""A change acts in part if it leaves so large a share of what any entry does in these steps."""


def check_context(family: Family, seed: int, length: int, step_limit: float | None = None) -> str:
    """Compare a context with another one, and with a change to it at step 1, under the same start and actions.

    Args:
        family: of several training contexts; of one alone nothing is known.
        seed: names the random streams.
        length: steps that an episode should have.
        step_limit: seconds that a step may take.

    Returns:
        A warning where the hidden parameter changes nothing, or in mid-episode nothing or a part only; else nothing.
        What breaks is left to the check of the task.
    """
    first, last = family.train[0], family.train[-1]
    if first == last:
        return ""
    constant = Schedule.constant(last)
    ways = Schedule.constant(first), constant, Schedule(((0, first), (1, last)))
    envs: list[gymnasium.Env] = []
    try:
        envs += [family.make(way, length) for way in ways]
        limit_steps(envs, step_limit)
        made, changed, steps = _apart(envs, seed)
        partly = changed and _in_part(envs[0], envs[1], constant, seed)
    except (UserError, EnvironmentFault):
        return ""
    finally:
        for env in envs:
            env.close()
    return _in_part_words(family, first, last) if partly else _words(family, first, last, made, changed, steps)


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


def _in_part(env: gymnasium.Env, made: gymnasium.Env, schedule: Schedule, seed: int) -> bool:
    """Whether an environment that gets another context goes elsewhere than the one that was made with it.

    It gets the context after the reset, unless the reset already depends on it; then before. What its constructor, or
    reset(), computed from the context that it had is left there.

    Args:
        env: made with another context; it is used up.
        made: with the context; likewise.
        schedule: of that context alone.
        seed: names the random streams.
    """
    scheduled: Any = next(layer for layer in layers(env) if isinstance(layer, ScheduledContext))
    begun = [_begun(one, seed) for one in (env, made)]
    earlier = not np.array_equal(begun[0], begun[1])
    scheduled.schedule = schedule
    if earlier and not np.array_equal(_begun(env, seed), begun[1]):
        return False  # where a reset begins need not be the hidden parameter's doing
    changed, right = (_path(one, start, seed) for one, start in zip((env, made), begun, strict=True))
    again = _path(made, _begun(made, seed), seed)
    steps = min(map(len, (changed, right, again)))
    if not np.array_equal(right[:steps], again[:steps]):
        return False  # it does not repeat itself, which is said elsewhere
    moved = np.abs(np.diff(right[:steps], axis=0)).max(0)
    return bool((np.abs(changed[1:steps] - right[1:steps]).max(0) > PARTLY * moved + REST).any())


def _begun(env: gymnasium.Env, seed: int) -> np.ndarray:
    return np.asarray(env.reset(seed=derive_seed(seed, "context check", "reset"))[0], np.float64)


def _path(env: gymnasium.Env, begun: np.ndarray, seed: int) -> np.ndarray:
    """The first observations ``[n, S]`` of an episode that has begun, under random actions."""
    space: Any = env.action_space
    rng = np.random.default_rng(derive_seed(seed, "context check", "actions"))
    path = [begun]
    for _ in range(FEW):
        observation, _, terminated, truncated, _ = env.step(rng.uniform(space.low, space.high).astype(space.dtype))
        path.append(np.asarray(observation, np.float64))
        if terminated or truncated:
            break
    return np.stack(path)


def _other(one: Sequence[Any], another: Sequence[Any]) -> bool:
    return not all(np.array_equal(part, other) for part, other in zip(one, another, strict=True))


def _in_part_words(family: Family, first: Context, last: Context) -> str:
    name = ", ".join(family.parameters)
    return (
        f"{name} changes only in part in mid-episode: an environment made with {label(first)} that gets {label(last)} "
        f"before its first step goes elsewhere than one made with {label(last)}; a schedule would show physics of none "
        f"of the contexts: let step() compute all that depends on {name} from it, and not __init__() or reset()"
    )


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
