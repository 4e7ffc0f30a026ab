"""A family of environments that differ in one hidden parameter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from pyro_dynamics.environments.hidden_parameter import Context
from pyro_dynamics.environments.schedule import Schedule, ScheduledContext
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import Task


@dataclass(frozen=True)
class Family:
    """One Gymnasium environment under several values of its hidden parameter.

    Attributes:
        name: what a user types.
        environment_id: the registered Gymnasium id; its environment is a :class:`HiddenParameter`.
        parameter: the constructor's argument that is hidden, with its ``unit`` for axes and tables.
        train: the contexts to learn from.
        test: the contexts to be met later.
        task: makes the task that the planner needs.
        description: one line for people.
    """

    name: str
    environment_id: str
    parameter: str
    unit: str
    train: tuple[Context, ...]
    test: tuple[Context, ...]
    task: Callable[[], Task]
    description: str

    @property
    def numeric(self) -> bool:
        """Whether contexts are numbers, with an order, and not names."""
        return not isinstance(self.train[0], str)

    @property
    def axis(self) -> str:
        """Name and unit of the hidden parameter, for axes and tables."""
        return f"{self.parameter} ({self.unit})"

    def parse_context(self, value: Any) -> Context:
        """The context that ``value`` stands for; raises :class:`UserError` if the simulator does not accept it."""
        return _environment_class(self.environment_id).parse_context(value)

    def parse_schedule(self, text: str) -> Schedule:
        """The schedule written as ``0:-6,500:6``, with every context checked before anything runs."""
        schedule = Schedule.parse(text)
        return replace(schedule, changes=tuple((step, self.parse_context(value)) for step, value in schedule.changes))

    def make(self, context: Context | Schedule, max_steps: int, **how: Any) -> gymnasium.Env:
        """One environment whose episodes are truncated after ``max_steps`` steps; ``how``: of the constructor."""
        schedule = context if isinstance(context, Schedule) else Schedule.constant(self.parse_context(context))
        start = {self.parameter: schedule.at(0)}
        env = gymnasium.make(self.environment_id, max_episode_steps=max_steps, disable_env_checker=True, **start, **how)
        return ScheduledContext(env, schedule)

    def make_vector(self, contexts: Sequence[Context | Schedule], max_steps: int, **how: Any) -> SyncVectorEnv:
        """K environments in lockstep, with autoreset off: the step after an end would be a false transition.

        Args:
            contexts: of each environment.
            max_steps: of an episode.
            how: more arguments of the constructor, such as ``render_mode``.

        Raises:
            UserError: if the spaces are not boxes of real vectors.
        """
        makers = [lambda context=context: self.make(context, max_steps, **how) for context in contexts]
        vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
        check_spaces(self.environment_id, vector.single_observation_space, vector.single_action_space)
        return vector


def check_spaces(name: str, observations: Space, actions: Space) -> None:
    """Refuse an environment in which nothing here can plan.

    Raises:
        UserError: if its actions or observations are not boxes of real vectors.
    """
    for kind, space in (("observation", observations), ("action", actions)):
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise UserError(
                f"{name} has the {kind} space {space}: only a Box of one axis works here; wrap the environment so "
                f"that its {kind} is a vector of real numbers"
            )


def _environment_class(environment_id: str) -> Any:
    return gymnasium.envs.registration.load_env_creator(str(gymnasium.spec(environment_id).entry_point))
