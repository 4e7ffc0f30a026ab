"""Copies the state of one environment in mid-episode into another one with its own context."""

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium
import mujoco
import numpy as np

from pyro_dynamics.environments.contexts import same_context
from pyro_dynamics.environments.family_env import FamilyEnv
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.environments.layers import layers
from pyro_dynamics.errors import UserError

PLAIN = (bool, int, float, str, type(None), np.ndarray, np.generic, np.random.Generator)
"""What is copied from an environment to its clone: data, never a simulator, a space or a wrapper."""
HOW_IT_WAS_MADE = ("_ezpickle_args", "_ezpickle_kwargs", "_saved_kwargs")


def put_where(clone: gymnasium.Env, original: gymnasium.Env) -> None:
    """Copy the state of ``original`` in its episode to ``clone``, random stream included; the clone's context stays.

    Copying the object would be slow, and would lose the state: Gymnasium's environments are copied by their constructor
    (EzPickle), which starts from the beginning.

    Args:
        clone: made by the same family, perhaps under another context, and reset before.
        original: reset, and stepped any number of times.
    """
    hidden = hidden_parameter(clone)
    context = hidden.context
    for own, other in zip(_layers(clone), _layers(original), strict=True):
        vars(own).update({name: copy.deepcopy(value) for name, value in _plain(other)})
    inner, source = clone.unwrapped, original.unwrapped
    if isinstance(getattr(inner, "model", None), mujoco.MjModel):
        # All of it: a step may start from quantities derived from an older state, as the position of Ant's torso.
        mujoco.mj_copyData(inner.data, inner.model, source.data)  # type: ignore[attr-defined]
    # Attributes may hold the context, and applied forces are part of the state.
    if not same_context(hidden.context, context, hidden.context_sizes):
        hidden.set_context(context)


def check_copies(clone: gymnasium.Env, original: gymnasium.Env, alike: gymnasium.Env) -> None:
    """Refuse environments whose constructor derives numbers from the context that setting it does not.

    Args:
        clone: just made; gets the state of ``original``.
        original: just made, under another context.
        alike: just made, under the clone's context: the clone must still be equal to it.

    Raises:
        UserError: naming the first number that is not.
    """
    put_where(clone, original)
    for own, other in zip(_layers(clone), _layers(alike), strict=True):
        expected = dict(_plain(other))
        for name, value in _plain(own):
            if _numeric(value) and not np.array_equal(value, expected[name], equal_nan=True):
                raise UserError(
                    f"{type(own).__name__}.{name} is computed from the context when the environment is made, and not "
                    "when the context is set: compute it in step, or in _write_context of a HiddenParameter"
                )


def _layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The wrappers from outside, and the environment; within a :class:`FamilyEnv` too."""
    for layer in layers(env):
        yield layer
        if isinstance(layer, FamilyEnv):
            yield from _layers(layer.env)


def _plain(env: gymnasium.Env) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in vars(env).items() if name not in HOW_IT_WAS_MADE and is_plain(value))


def is_plain(value: Any) -> bool:
    """Whether ``value`` is plain data at every level."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple | deque):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)


def _numeric(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufc"
