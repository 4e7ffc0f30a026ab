"""Robots put where another one is in its episode, under contexts of their own."""

import copy
from collections import deque
from typing import Any

import gymnasium
import mujoco
import numpy as np

from pyro_dynamics.environments.hidden_parameter import hidden_parameter

PLAIN = (bool, int, float, str, type(None), np.ndarray, np.generic, np.random.Generator)
"""What is copied from a robot to its twin: data, never a simulator, a space or a wrapper."""


def put_where(twin: gymnasium.Env, original: gymnasium.Env) -> None:
    """Put ``twin`` where ``original`` is in its episode, random stream included; the twin's context stays.

    Copying the object would be slow, and would not do: environments of Gymnasium that are copied by their constructor
    (EzPickle) begin anew.

    Args:
        twin: made by the same family, perhaps under another context, and reset before.
        original: reset, and stepped any number of times.
    """
    hidden = hidden_parameter(twin)
    context = hidden.context
    while True:
        plain = {name: copy.deepcopy(value) for name, value in vars(original).items() if is_plain(value)}
        vars(twin).update(plain)
        if not isinstance(twin, gymnasium.Wrapper) or not isinstance(original, gymnasium.Wrapper):
            break
        twin, original = twin.env, original.env
    model = getattr(twin, "model", None)
    if isinstance(model, mujoco.MjModel):
        inner: Any = original
        # All of it: what a step begins with may be derived from an older state, as the place of Ant's torso.
        mujoco.mj_copyData(twin.data, model, inner.data)  # type: ignore[attr-defined]
    hidden.set_context(context)  # last: applied forces are part of the state, and attributes may be a context


def is_plain(value: Any) -> bool:
    """Whether ``value`` is data through and through."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple | deque):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)
