"""A hidden parameter that changes at given steps."""

from dataclasses import dataclass
from typing import Any

import gymnasium

from pyro_dynamics.environments.contexts import Context
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.errors import UserError


@dataclass(frozen=True)
class Schedule:
    """Piecewise constant context: ``changes`` holds (first step, context) pairs in order, from step 0 on.

    Example:
        >>> Schedule(((0, -6.0), (500, 6.0))).at(499)
        -6.0
    """

    changes: tuple[tuple[int, Context], ...]

    def __post_init__(self) -> None:
        steps = [step for step, _ in self.changes]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise UserError(f"a schedule starts at step 0 and goes on at rising steps, not at {steps}")

    def at(self, step: int) -> Context:
        """The context at ``step``."""
        return next(context for start, context in reversed(self.changes) if start <= step)

    @classmethod
    def constant(cls, context: Context) -> "Schedule":
        """The schedule that never changes."""
        return cls(((0, context),))

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """The schedule written as ``step:context,step:context``, for example ``0:-6,500:6``.

        The contexts are left as text, for the family to read.

        Raises:
            UserError: if the text does not have that form.
        """
        changes = []
        for item in text.split(","):
            step, colon, context = item.partition(":")
            if not colon or not step.strip().isdigit() or not context.strip():
                raise UserError(f"a schedule reads step:context,step:context (for example 0:-6,500:6), not {text!r}")
            changes.append((int(step), context.strip()))
        return cls(tuple(changes))


class ScheduledContext(gymnasium.Wrapper):
    """Sets the hidden parameter before each step as the schedule says, and tells the true context in ``info``."""

    def __init__(self, env: gymnasium.Env, schedule: Schedule) -> None:
        super().__init__(env)
        self.schedule = schedule
        self._step = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        self._apply()
        observation, info = self.env.reset(**kwargs)
        return observation, {**info, "context": self._hidden.context}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._apply()
        self._step += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "context": self._hidden.context}

    def _apply(self) -> None:
        wanted = self.schedule.at(self._step)
        if self._hidden.context != wanted:
            self._hidden.set_context(wanted)

    @property
    def _hidden(self) -> Any:
        return hidden_parameter(self.env)
