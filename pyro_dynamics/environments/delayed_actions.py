"""Actions that act some steps after they are sent."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.environments.contexts import parse_number
from pyro_dynamics.environments.hidden_parameter import HiddenParameterWrapper
from pyro_dynamics.environments.vector_env import as_vectors
from pyro_dynamics.errors import UserError


class DelayedActions(HiddenParameterWrapper):
    """An environment that takes each action a hidden number of steps after it is sent.

    The actions under way are state: without them the next state would depend on more than observation and action. The
    last ``most`` that were sent are therefore appended to the observation, the newest first, whatever the delay is;
    which of them acts next is what the hidden parameter decides. Before the first action there is rest: 0, or the bound
    nearest to it.

    Args:
        env: any environment; its observations and actions become vectors.
        most: the longest delay in steps.
        delay: the delay in steps, a whole number.
    """

    parameter = "delay"

    def __init__(self, env: gymnasium.Env, most: int, delay: float = 0) -> None:
        RecordConstructorArgs.__init__(self, most=most, delay=delay)
        gymnasium.Wrapper.__init__(self, as_vectors(env))
        if most < 1:
            raise UserError(f"the longest delay must be 1 step or more, not {most}")
        observed, sent = self.env.observation_space, self.env.action_space
        if not isinstance(observed, Box) or not isinstance(sent, Box):
            raise UserError(
                "the actions of an environment can be delayed where its observations and actions are vectors"
            )
        dtype: Any = np.result_type(observed.dtype, sent.dtype)
        low, high = (
            np.concatenate([of_state, *[of_action] * most]).astype(dtype)
            for of_state, of_action in ((observed.low, sent.low), (observed.high, sent.high))
        )
        self.observation_space = Box(low, high, dtype=dtype)
        self.most = most
        self.delay = int(self.parse_context(delay))
        self._rest = np.tile(np.clip(0.0, sent.low, sent.high).astype(sent.dtype), (most, 1))
        self._sent = self._rest

    def parse_context(self, value: Any) -> float:  # type: ignore[override]
        return whole_steps(value, self.parameter, self.most)

    def _write_context(self, context: float) -> None:
        self.delay = int(context)

    @property
    def context(self) -> float:
        return float(self.delay)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, with actions of rest under way."""
        observation, info = self.env.reset(**kwargs)
        self._sent = self._rest
        return self._with_sent(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Send an action, and act with the one that arrives now."""
        sent = np.concatenate([np.asarray(action, self._sent.dtype)[None], self._sent])
        observation, reward, terminated, truncated, info = self.env.step(sent[self.delay])
        self._sent = sent[: self.most]
        return self._with_sent(observation), reward, terminated, truncated, info

    def _with_sent(self, observation: Any) -> np.ndarray:
        return np.concatenate([observation, self._sent.ravel()]).astype(self.observation_space.dtype)


def whole_steps(value: Any, name: str, most: int) -> float:
    """The whole number of steps from 0 to ``most`` that ``value`` stands for; raises :class:`UserError` for another."""
    steps = parse_number(value, name, 0, most, "steps", closed=True)
    if not steps.is_integer():
        raise UserError(f"{name} must be a whole number of steps, not {value}")
    return steps
