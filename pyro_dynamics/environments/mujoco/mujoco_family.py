"""A family of any MuJoCo environment of Gymnasium."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from pyro_dynamics.environments.contexts import Context, as_context, numbers, split_context
from pyro_dynamics.environments.delayed_actions import DelayedActions
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.hidden_parameter import HiddenParameterWrapper
from pyro_dynamics.environments.mujoco.last_velocity import LastVelocity
from pyro_dynamics.environments.mujoco.mujoco_compat import without_settotalmass_warning
from pyro_dynamics.environments.mujoco.mujoco_model import Simulator
from pyro_dynamics.environments.mujoco.mujoco_parameters import ActionDelay, Disabled, Physical
from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import Task

Vary = Mapping[str, Physical | tuple[Physical, ...]]
"""The hidden parameters by name; one that changes several things at once has a tuple of them."""


def mujoco_family(
    name: str,
    environment: str | Callable[..., gymnasium.Env],
    vary: Vary,
    train: tuple[Context, ...],
    test: tuple[Context, ...] | Mapping[str, tuple[Context, ...]],
    task: Callable[[], Task],
    description: str = "",
    last_velocity: bool = False,
    drawn_from: tuple[Context, ...] = (),
    **settings: Any,
) -> Family:
    """A family of environments that differ in physical parameters of a MuJoCo model.

    Args:
        name: what a user types.
        environment: a registered Gymnasium id, or what makes an environment with ``model`` and ``data``.
        vary: the hidden parameters by name, see :mod:`pyro_dynamics.environments.mujoco.mujoco_parameters`.
        train: the contexts to learn from.
        test: the contexts to test on, or named sets of them.
        task: makes the task.
        description: one line.
        last_velocity: prepend the velocity over the last step to the observation, see
            :class:`~pyro_dynamics.environments.mujoco.last_velocity.LastVelocity`.
        drawn_from: the contexts among which training episodes draw that have one of their own each.
        settings: further keywords for the environment.

    Example:
        >>> from pyro_dynamics.environments.mujoco.mujoco_parameters import damping, mass
        >>> from pyro_dynamics.tasks.suite.hopper import HopperTask
        >>> contexts = ((0.8, 1.0), (1.0, 1.0), (1.2, 1.0), (1.0, 2.0))
        >>> vary = {"mass": mass("torso"), "damping": damping()}
        >>> family = mujoco_family(
        ...     "my-hopper", "Hopper-v5", vary, contexts, ((1.5, 1.0),), HopperTask, last_velocity=True
        ... )
        >>> family.axis
        'mass (of nominal), damping (of nominal)'
    """
    first = [parts[0] if isinstance(parts, tuple) else parts for parts in vary.values()]
    parameters, units = tuple(vary), tuple(part.unit for part in first)
    maker = MujocoMaker(environment, dict(vary), last_velocity, settings)
    single = len(parameters) == 1
    return Family(
        name,
        maker,
        parameters[0] if single else parameters,
        units[0] if single else units,
        train,
        test,
        task,
        description,
        drawn_from,
    )


@dataclass(frozen=True)
class MujocoMaker:
    """Makes the environments of a family, nominal ones without a context; see :func:`mujoco_family`."""

    environment: str | Callable[..., gymnasium.Env]
    vary: Vary
    last_velocity: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, render_mode: str | None = None, **context: Any) -> gymnasium.Env:
        make: Any = self.environment
        settings = dict(self.settings) if render_mode is None else {**self.settings, "render_mode": render_mode}
        with without_settotalmass_warning():
            if isinstance(make, str):
                # The family sets the limit of an episode.
                try:
                    env = gymnasium.make(make, max_episode_steps=-1, disable_env_checker=True, **settings)
                except gymnasium.error.UnregisteredEnv as fault:
                    raise UserError(f"there is no environment {make!r}: {fault}") from None
            else:
                env = make(**settings)
        env = MujocoPhysics(env, self.vary, context or None)
        return LastVelocity(env) if self.last_velocity else env

    def parse_context(self, value: Any) -> Context:
        """The context that ``value`` stands for; raises :class:`UserError` if it makes no sense."""
        return parse_physical(value, self.vary)


class MujocoPhysics(HiddenParameterWrapper):
    """Changes physical parameters of the MuJoCo model inside, and reads them back from it.

    A copy keeps the state within the episode and the context: copies of Gymnasium's environments alone would start from
    the beginning, with nominal physics.

    Args:
        env: with ``model`` and ``data``.
        vary: the parameters by name.
        context: the initial one; nominal values by default.

    Raises:
        UserError: if the environment is not MuJoCo's, or the model has no such part.
    """

    def __init__(self, env: gymnasium.Env, vary: Vary, context: Any = None) -> None:
        RecordConstructorArgs.__init__(self, vary=vary, context=context)
        gymnasium.Wrapper.__init__(self, env)
        inner: Any = env.unwrapped
        if not isinstance(getattr(inner, "model", None), mujoco.MjModel):
            raise UserError(f"{type(inner).__name__} is not an environment on MuJoCo: it has no mjModel as .model")
        if not vary or (len(vary) > 1 and any(isinstance(part, Disabled) for part in vary.values())):
            raise UserError(f"one parameter or several numbers are varied, and names by themselves: not {list(vary)}")
        self.vary = {name: parts if isinstance(parts, tuple) else (parts,) for name, parts in vary.items()}
        self.parameter = tuple(self.vary) if len(self.vary) > 1 else next(iter(self.vary))
        delays = [part for part in self._parts if isinstance(part, ActionDelay)]
        if len(delays) > 1:
            raise UserError("the actions are delayed by one parameter")
        if delays:
            self.env = DelayedActions(env, delays[0].most)
        self._simulator = Simulator(inner.model, inner.data, delayed=self._delayed)
        for part in self._parts:
            part.check(self._simulator)
        if context is not None:
            self.set_context(context)

    @property
    def _parts(self) -> list[Physical]:
        return [part for parts in self.vary.values() for part in parts]

    @property
    def _delayed(self) -> DelayedActions | None:
        return self.env if isinstance(self.env, DelayedActions) else None

    def parse_context(self, value: Any) -> Context:  # type: ignore[override]
        return parse_physical(value, self.vary)

    def _write_context(self, context: Context) -> None:
        values = (context,) if isinstance(context, str) else numbers(context)
        self._simulator.restore()
        for value, parts in zip(values, self.vary.values(), strict=True):
            for part in parts:
                part.write(self._simulator, value)
        if any(part.changes_mass for part in self._parts):
            self._simulator.update_constants()

    @property
    def context(self) -> Context:
        held = [[part.read(self._simulator) for part in parts] for parts in self.vary.values()]
        if isinstance(held[0][0], str):
            return held[0][0]
        # Parts of one parameter that disagree have no common value: NaN equals no context.
        return as_context([float(parts[0]) if len(set(parts)) == 1 else np.nan for parts in held])  # type: ignore[arg-type]

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        context = self.context
        result = self.env.reset(**kwargs)
        if self.context != context:  # a reset clears applied forces
            self.set_context(context)
        return result

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        inner: Any = self.env.unwrapped
        # All of it: a step may start from quantities derived from an older state, as the position of Ant's torso.
        state["_simulator"] = self._simulator.nominal, copy.copy(inner.data), inner.np_random
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        nominal, data, random = state["_simulator"]
        inner: Any = state["env"].unwrapped
        delayed = state["env"] if isinstance(state["env"], DelayedActions) else None
        super().__setstate__({**state, "_simulator": Simulator(inner.model, inner.data, nominal, delayed)})
        mujoco.mj_copyData(inner.data, inner.model, data)
        inner.np_random = random


def parse_physical(value: Any, vary: Mapping[str, Any]) -> Context:
    """The context of physical parameters that ``value`` stands for."""
    values = split_context(value, tuple(vary))
    first = [parts[0] if isinstance(parts, tuple) else parts for parts in vary.values()]
    parsed = [part.parse(one, name) for one, name, part in zip(values, vary, first, strict=True)]
    return parsed[0] if isinstance(parsed[0], str) else as_context(parsed)
