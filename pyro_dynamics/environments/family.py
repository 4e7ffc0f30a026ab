"""A family of environments that differ in hidden parameters."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from pyro_dynamics.environments.checked_env import CheckedEnv, checked_envs, making
from pyro_dynamics.environments.contexts import (
    Context,
    as_context,
    numbers,
    of_python,
    one_but_for_rounding,
    parse_number,
    sizes_of,
    split_context,
)
from pyro_dynamics.environments.family_words import kind_of, plain_words
from pyro_dynamics.environments.given_contexts import given_contexts
from pyro_dynamics.environments.hidden_parameter import AttributeContext, hidden_parameter
from pyro_dynamics.environments.schedule import Schedule, ScheduledContext
from pyro_dynamics.environments.schedule_text import parse_schedule
from pyro_dynamics.environments.vector_env import as_vectors
from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.tasks import Task, check_spaces


@dataclass(frozen=True)
class Family:
    """One Gymnasium environment under several values of its hidden parameters.

    Attributes:
        name: what a user types.
        environment: a registered Gymnasium id, or anything that takes one keyword for each hidden parameter and
            returns an environment. Where that is no :class:`~pyro_dynamics.environments.HiddenParameter`, each
            parameter is read back from the environment's attribute of that name.
        parameter: the keyword that is hidden, or a tuple of several.
        unit: of the parameter, for axes and tables, or a tuple of as many.
        train: the contexts to learn from: numbers, names of categories, or tuples with a number for each parameter.
        test: the contexts to test on, or named sets of them.
        task: makes the task that the planner needs.
        description: one line.
        drawn_from: the contexts among which training episodes draw that have one of their own each
            (:class:`~pyro_dynamics.environments.drawn_family.DrawnFamily`); by default those of ``train``.

    Raises:
        UserError: if units or contexts do not fit the parameters.
    """

    name: str
    environment: str | Callable[..., gymnasium.Env]
    parameter: str | tuple[str, ...]
    unit: str | tuple[str, ...]
    train: tuple[Context, ...]
    test: tuple[Context, ...] | Mapping[str, tuple[Context, ...]]
    task: Callable[[], Task]
    description: str = ""
    drawn_from: tuple[Context, ...] = ()

    def __post_init__(self) -> None:
        for attribute, value in plain_words(self).items():
            object.__setattr__(self, attribute, value)
        if len(self.units) != len(self.parameters):
            raise UserError(f"family {self.name}: {len(self.parameters)} parameters have {len(self.units)} units")
        object.__setattr__(self, "train", self._given("train", self.train))
        test: Any = self.test
        if isinstance(test, Mapping):
            test = {name: self._given(f"test set {name!r}", contexts) for name, contexts in test.items()}
        else:
            test = self._given("test", test)
        object.__setattr__(self, "test", test)
        if not self.train or not self.test_contexts:
            raise UserError(f"family {self.name} needs contexts to train on and to test on")
        object.__setattr__(self, "drawn_from", self._given("drawn_from", self.drawn_from))
        self._require_different()

    def _require_different(self) -> None:
        """Refuse the same training context twice."""
        for index, context in enumerate(self.train):  # 0.3 and 0.1 + 0.2 would be two environments
            if any(_equal(one, context) for one in self.train[:index]):
                raise UserError(f"family {self.name} has the training context {context} twice")

    def _given(self, what: str, contexts: Any) -> tuple[Context, ...]:
        found = given_contexts(f"family {self.name}: {what}", contexts, self.parameters, self.units)
        if what != "train" and self.train and found and isinstance(found[0], str) == self.numeric:
            kinds = ("numbers", "names") if self.numeric else ("names", "numbers")
            raise UserError(f"family {self.name}: train has {kinds[0]} and {what} {kinds[1]}")
        return found

    def make_task(self) -> Task:
        """A task of the family.

        Raises:
            UserError: if what the family's maker gives is none.
        """
        with making(f"the task of family {self.name}"):
            task = self.task()
        if not isinstance(task, Task):
            raise UserError(f"family {self.name}: its task must give a Task, not {kind_of(task)}")
        if getattr(task, "_is_given", False):
            raise UserError(
                f"family {self.name}: its task gives an object that it gave before, and agents would share what they "
                "learn of their data: let it make a new one at each call, as in "
                f"task=lambda: {type(task).__name__}(...)"
            )
        object.__setattr__(task, "_is_given", True)  # also where the task is a frozen dataclass
        for size in ("state_dim", "action_dim", "feature_dim", "target_dim"):
            value = getattr(task, size, None)
            if not isinstance(value, int) or value < 1:
                raise UserError(f"{type(task).__name__}.{size} must be a whole number from 1 on, not {value!r}")
        return task

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the hidden parameters."""
        return (self.parameter,) if isinstance(self.parameter, str) else tuple(self.parameter)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each hidden parameter."""
        return (self.unit,) if isinstance(self.unit, str) else tuple(self.unit)

    @property
    def test_sets(self) -> dict[str, tuple[Context, ...]]:
        """The test contexts by the name of their set, which is ``test`` where they have none."""
        return dict(self.test) if isinstance(self.test, Mapping) else {"test": tuple(self.test)}

    @property
    def test_contexts(self) -> tuple[Context, ...]:
        """The contexts of all test sets, one after the other."""
        return tuple(context for contexts in self.test_sets.values() for context in contexts)

    @property
    def numeric(self) -> bool:
        """Whether contexts are numbers, with an order, and not names."""
        return not isinstance(self.train[0], str)

    @property
    def decodable(self) -> bool:
        """Whether hidden parameters are decoded from latents: numbers, of which several were trained on."""
        return self.numeric and len(set(self.train)) > 1

    @property
    def axes(self) -> tuple[str, ...]:
        """Name and unit of each hidden parameter, for axes and tables."""
        return tuple(f"{name} ({unit})" if unit else name for name, unit in zip(*self._names, strict=True))

    @property
    def axis(self) -> str:
        """Name and unit of all hidden parameters together."""
        return ", ".join(self.axes)

    def parse_context(self, value: Any) -> Context:
        """The context that ``value`` stands for; raises :class:`UserError` if the simulator does not accept it.

        Args:
            value: a context or its text, of Python, numpy or torch; a mapping from the parameters' names; of a single
                parameter also a list of one value.
        """
        values = self._split(of_python(value))
        own = getattr(self._creator, "parse_context", None)
        return self._parse(values) if own is None else own(values[0] if len(values) == 1 else tuple(values))

    def _split(self, value: Any) -> list[Any]:
        """A value for each parameter; the name of a category may have commas and equals signs in it."""
        named = isinstance(value, str) and value in (*self.train, *self.test_contexts)
        return [str.__str__(value)] if named else split_context(value, self.parameters)

    def _parse(self, values: Sequence[Any]) -> Context:
        """A context of an environment without its own parser: finite numbers, or categories that it declares."""
        if self.numeric:
            return as_context([parse_number(v, n, unit=u) for v, n, u in zip(values, *self._names, strict=True)])
        known = dict.fromkeys((*self.train, *self.test_contexts))
        if values[0] not in known:
            raise UserError(f"{self.parameter} must be one of {', '.join(map(str, known))}, not {values[0]!r}")
        return values[0]

    @property
    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.parameters, self.units

    @property
    def _creator(self) -> Any:
        """What makes the environment: a class, a function or an object."""
        if not isinstance(self.environment, str):
            return self.environment
        try:
            entry: Any = gymnasium.spec(self.environment).entry_point
        except gymnasium.error.Error as fault:
            raise UserError(f"family {self.name}: {fault}") from None
        return gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry

    def encode(self, contexts: Sequence[Context]) -> np.ndarray:
        """Contexts as the input of a network, ``[n, columns]``.

        Numbers are standardised, each parameter by the mean and the standard deviation of its training values (one that
        never varies is only centred). Names have a column for each training context, with a 1 in their own; a name
        that was not trained on is all zeros.
        """
        if not self.numeric:
            return np.array([[float(context == name) for name in self.train] for context in contexts])
        trained, values = (np.array([numbers(context) for context in some]) for some in (self.train, contexts))
        spread = trained.std(0)
        return (values - trained.mean(0)) / np.where(spread > 0, spread, 1.0)

    def parse_schedule(self, text: str, steps: int = 1000) -> Schedule:
        """The schedule written as ``0:-6,500:6``, or in another form of ``schedule_text``.

        Every context is checked before anything runs. A sine or a random walk lasts for ``steps``.
        """
        schedule = parse_schedule(text, self.parse_context, steps)
        return replace(schedule, changes=tuple((step, self.parse_context(value)) for step, value in schedule.changes))

    def make(self, context: Context | Schedule, max_steps: int, **how: Any) -> gymnasium.Env:
        """One environment whose episodes are truncated after ``max_steps`` steps.

        Its true context is in ``info["context"]``, read back from the simulator, and never in the observation. Its
        faults are raised as :class:`~pyro_dynamics.errors.EnvironmentFault`.

        Args:
            context: the hidden parameters, or how they change.
            max_steps: of an episode.
            how: more arguments of the constructor, such as ``render_mode``.

        Raises:
            UserError: if the simulator does not accept or apply a context, or its constructor not the other arguments;
                if a hidden parameter is among these; if no vectors stand for its observations or actions.
        """
        if twice := [name for name in self.parameters if name in how]:
            raise UserError(f"family {self.name}: the context says the {', '.join(twice)}: give no other beside it")
        schedule = context if isinstance(context, Schedule) else Schedule.constant(self.parse_context(context))
        start = self.parse_context(schedule.at(0))
        env = self._create(start, max_steps, how)
        sizes = sizes_of((*self.train, *self.test_contexts))
        hidden = hidden_parameter(env)
        if hidden is None:
            env = AttributeContext(env, self.parameter, start, sizes)
        else:
            hidden.context_sizes = sizes
        check_spaces(self.name, env.observation_space, env.action_space)
        # A task may read the true context in info, and gets valid observations only.
        task = self.make_task()
        with faults_of(f"{type(task).__name__}.wrap()"):
            wrapped: Any = task.wrap(ScheduledContext(CheckedEnv(as_vectors(env), self.axis), schedule))
        if not isinstance(wrapped, gymnasium.Env):
            raise UserError(f"{type(task).__name__}.wrap() must give the environment, not {wrapped!r}")
        return wrapped

    def _create(self, context: Context, max_steps: int, how: Mapping[str, Any]) -> gymnasium.Env:
        values: tuple[Any, ...] = (context,) if isinstance(context, str) else numbers(context)
        settings: dict[str, Any] = {**dict(zip(self.parameters, values, strict=True)), **how}
        with making(f"an environment of family {self.name}"):
            env: Any = self._made(max_steps, settings)
        return env

    def _made(self, max_steps: int, settings: Mapping[str, Any]) -> gymnasium.Env:
        try:
            if isinstance(self.environment, str):
                make: Any = gymnasium.make
                return make(self.environment, max_episode_steps=max_steps, disable_env_checker=True, **settings)
            env: Any = self.environment(**settings)
        except TypeError as fault:
            refused = re.search(r"unexpected keyword argument '([^']+)'", str(fault))
            if refused is None or refused[1] not in settings:
                raise
            words = ", ".join(self.parameters if refused[1] in self.parameters else [refused[1]])
            raise UserError(
                f"family {self.name}: its environment does not take {words} as keywords ({fault})"
            ) from fault
        if not isinstance(env, gymnasium.Env):
            raise UserError(
                f"family {self.name}: its environment must be made as a gymnasium.Env, not as {kind_of(env)}"
            )
        return TimeLimit(env, max_steps)

    def make_vector(self, contexts: Sequence[Context | Schedule], max_steps: int, **how: Any) -> SyncVectorEnv:
        """K environments in lockstep, with autoreset off: the step after an end would be a spurious transition.

        Args:
            contexts: of each environment.
            max_steps: of an episode.
            how: more arguments of the constructor, such as ``render_mode``.

        Raises:
            UserError: as :meth:`make`, or if two of them are one object, or have other spaces than the first.
        """
        envs = [self.make(context, max_steps, **how) for context in contexts]
        for kind in ("action_space", "observation_space"):
            first = getattr(envs[0], kind)
            for env, context in zip(envs, contexts, strict=True):
                if getattr(env, kind) != first:
                    raise UserError(
                        f"family {self.name}: the {kind} is {first} in {self.axis} {contexts[0]}, and "
                        f"{getattr(env, kind)} in {context}: let it be the widest one in all, and step() clip the rest"
                    )
        makers = [lambda env=env: env for env in envs]
        vector = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
        if len({id(env.unwrapped) for env in vector.envs}) < len(contexts):
            raise UserError(
                f"family {self.name}: its environment gives an object that it gave before, so that several contexts "
                "would be one simulator: let it make a new one at each call"
            )
        for guard, context in zip(checked_envs(vector), contexts, strict=True):
            guard.index = contexts.index(context)  # environments with the same context share its index
        return vector


def _equal(first: Context, second: Context) -> bool:
    """Whether two contexts are the same but for rounding, of numbers of any size."""
    if isinstance(first, str) or isinstance(second, str):
        return first == second
    return all(map(one_but_for_rounding, numbers(first), numbers(second)))
