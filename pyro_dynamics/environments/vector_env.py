"""A wrapper by which an environment observes and takes vectors of real numbers, whatever its own spaces are."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space, Tuple
from gymnasium.spaces.utils import flatten, unflatten
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.tasks.spaces import action_vector, choices_of, decide, is_vector, observation_vector


class VectorEnv(gymnasium.Wrapper, RecordConstructorArgs):
    """Flattens observations, and gives the environment the actions that vectors stand for.

    Observations are flattened as by Gymnasium's ``FlattenObservation``; a discrete number becomes a one-hot code, in
    actions too: of its entries the largest decides.

    Args:
        env: with spaces that :func:`~pyro_dynamics.tasks.check_spaces` accepts.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = observation_vector(env.observation_space)
        self.action_space = action_vector(env.action_space)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return self._flat(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self._own(action))
        return self._flat(observation), reward, terminated, truncated, info

    def _flat(self, observation: Any) -> Any:
        space = self.env.observation_space
        if is_vector(space):
            return observation
        require_in(space, observation)
        return flatten(space, observation)

    def _own(self, action: Any) -> Any:
        space = self.env.action_space
        if is_vector(space):
            return action
        decided = decide(torch.from_numpy(np.array(action)), choices_of(self.action_space))
        return unflatten(space, decided.numpy())


def require_in(space: Space, value: Any, where: str = "the observation") -> None:
    """Refuse an observation that has not the parts of its space, which would be flattened to something else.

    Bounds of boxes are not enforced: many environments leave them.

    Raises:
        ValueError: naming the first part that does not fit.
    """
    if isinstance(space, Dict | Tuple):
        parts: Any = dict(space.spaces) if isinstance(space, Dict) else dict(enumerate(space.spaces))
        wanted = f"a dictionary with {', '.join(map(str, parts))}" if isinstance(space, Dict) else f"{len(parts)} parts"
        whole = isinstance(value, Mapping) if isinstance(space, Dict) else isinstance(value, tuple | list)
        if not whole or (set(parts) - set(value) if isinstance(space, Dict) else len(value) != len(parts)):
            raise ValueError(f"{where} must be {wanted}, and is {_short(value)}")
        for key, part in parts.items():
            require_in(part, value[key], f"{where}[{key!r}]")
    elif np.shape(value) != space.shape if isinstance(space, Box) else not space.contains(value):
        raise ValueError(f"{where} must be in {space}, and is {_short(value)}")


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def as_vectors(env: gymnasium.Env) -> gymnasium.Env:
    """The environment as it is, if it observes and takes vectors, and else in a :class:`VectorEnv`."""
    return env if is_vector(env.observation_space) and is_vector(env.action_space) else VectorEnv(env)
