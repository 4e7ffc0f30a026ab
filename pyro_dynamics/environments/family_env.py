"""Gymnasium's ids of the families that change the MuJoCo model of another environment."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from pyro_dynamics.environments.contexts import Context, numbers
from pyro_dynamics.environments.hidden_parameter import HiddenParameter, choose_context, hidden_parameter
from pyro_dynamics.environments.mujoco.mujoco_family import MujocoMaker
from pyro_dynamics.environments.registry import FAMILIES


def make_family_env(family: str, context: Any = None, render_mode: str | None = None, **keywords: Any) -> gymnasium.Env:
    """An environment of a registered family, as ``gymnasium.make`` calls it.

    Args:
        family: its name.
        context: the hidden parameters, all at once; nominal values by default, those of Gymnasium's own environment.
        render_mode: as for any environment.
        keywords: a hidden parameter each, under its name (the others keep their nominal values), and settings of the
            simulator such as ``width``.

    Raises:
        UserError: if the simulator does not accept the context, or if it is given both ways.
    """
    maker = FAMILIES[family].environment
    assert isinstance(maker, MujocoMaker)
    named = {name: keywords.pop(name) for name in maker.vary if name in keywords}
    env = FamilyEnv(replace(maker, settings={**maker.settings, **keywords})(render_mode))
    held = env.context
    nominal = dict(zip(maker.vary, (held,) if isinstance(held, str) else numbers(held), strict=True))
    env.set_context(choose_context(context, named, nominal))
    return env


class FamilyEnv(HiddenParameter, gymnasium.Env):
    """An environment and its wrappers as one, whose ``unwrapped`` has the hidden parameter.

    Gymnasium notes the wrappers that an entry point brings along in the specification, which could then not be written
    as JSON. What the simulator has (``model``, ``data``) is found here too.

    Args:
        env: with a hidden parameter.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        self.env = env
        self._hidden: HiddenParameter = hidden_parameter(env)
        self.parameter = self._hidden.parameter
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.metadata, self.render_mode = env.metadata, env.render_mode

    def parse_context(self, value: Any) -> Context:  # type: ignore[override]
        return self._hidden.parse_context(value)

    def _write_context(self, context: Context) -> None:
        self._hidden.set_context(context)

    @property
    def context(self) -> Context:
        return self._hidden.context

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.env.step(action)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    @property
    def _np_random(self) -> np.random.Generator | None:
        """The simulator's own: there is one stream of random numbers."""
        return self.env.unwrapped._np_random

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self.env.unwrapped._np_random = value

    @property
    def _np_random_seed(self) -> int | None:
        return self.env.unwrapped._np_random_seed

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self.env.unwrapped._np_random_seed = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:  # a copy asks before it has its attributes
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.env.unwrapped, name)
