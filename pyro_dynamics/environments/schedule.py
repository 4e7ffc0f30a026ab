"""Hidden parameters that change in mid-episode."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.environments.contexts import Context, same_context
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.errors import UserError

LAST_STEP = 1_000_000
"""A ramp stores this many contexts, and no episode is longer."""


@dataclass(frozen=True)
class Schedule:
    """The context at every step, the same until the next change.

    Attributes:
        changes: (first step, context) pairs in order, from step 0 on.
        length: how many steps it was made for, where it would change after them too.

    Example:
        >>> Schedule(((0, -6.0), (500, 6.0))).at(499)
        -6.0
    """

    changes: tuple[tuple[int, Context], ...]
    length: int | None = None

    def __post_init__(self) -> None:
        steps = [step for step, _ in self.changes]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise UserError(f"a schedule starts at step 0 and continues at increasing steps, not at {steps}")
        if steps[-1] > LAST_STEP:
            raise UserError(f"a schedule goes to step {LAST_STEP} at most, not to {steps[-1]}")

    def at(self, step: int) -> Context:
        """The context at ``step``."""
        return self.changes[bisect_right(self.changes, step, key=lambda change: change[0]) - 1][1]

    @property
    def last_change(self) -> int:
        """The step from which on nothing changes."""
        return self.changes[-1][0]

    def unreached(self, steps: int) -> str:
        """A warning where it changes after the last of so many steps; nothing where every change comes."""
        late = [step for step, _ in self.changes if step >= steps]
        if not late:
            return ""
        which = f"at step {late[0]}" if len(late) == 1 else f"at steps {late[0]} to {late[-1]}"
        return f"the schedule changes {which}, and that never comes: the episode has {steps} steps"

    @classmethod
    def constant(cls, context: Context) -> "Schedule":
        """The schedule that never changes."""
        return cls(((0, context),))

    @classmethod
    def of_steps(cls, contexts: Sequence[Context], length: int | None = None) -> "Schedule":
        """The schedule with these contexts at steps 0, 1, 2, ...; the last one stays."""
        starts = [step for step, context in enumerate(contexts) if not step or context != contexts[step - 1]]
        return cls(tuple((step, contexts[step]) for step in starts), length)


class ScheduledContext(gymnasium.Wrapper, RecordConstructorArgs):
    """Sets the hidden parameter before each step by the schedule, and writes the true context to ``info``."""

    def __init__(self, env: gymnasium.Env, schedule: Schedule) -> None:
        RecordConstructorArgs.__init__(self, schedule=schedule)
        gymnasium.Wrapper.__init__(self, env)
        self.schedule = schedule
        self._step = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the context of step 0."""
        self._step = 0
        self._apply()
        observation, info = self.env.reset(**kwargs)
        return observation, {**info, "context": self.context}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Give the environment the context of this step, and act in it."""
        self._apply()
        self._step += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "context": self.context}

    @property
    def context(self) -> Context:
        """What the simulator uses now."""
        return hidden_parameter(self.env).context

    def _apply(self) -> None:
        wanted = self.schedule.at(self._step)
        hidden = hidden_parameter(self.env)
        if not same_context(hidden.context, wanted, hidden.context_sizes):
            hidden.set_context(wanted)
