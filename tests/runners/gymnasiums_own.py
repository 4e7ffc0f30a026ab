"""Families of Gymnasium's own environments, in its own wrappers: a name is that of a row of OWN."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from pyro_dynamics import Family
from pyro_dynamics.tasks import BoxTask

ZERO, ONE = np.float32(0), np.float32(1)
OWN: dict[str, tuple[str, Callable[[Any], gymnasium.Env], str, tuple[float, float]]] = {
    "cartpole": ("CartPole-v1", lambda env: env, "gravity", (9.8, 14.0)),
    "acrobot": ("Acrobot-v1", lambda env: wrappers.TimeAwareObservation(env, flatten=False), "LINK_MASS_1", (1.0, 2.0)),
    "mountain_car": ("MountainCar-v0", lambda env: wrappers.FrameStackObservation(env, 3), "gravity", (0.002, 0.003)),
    "pendulum": ("Pendulum-v1", lambda env: wrappers.DiscretizeAction(env, 5), "g", (5.0, 10.0)),
    "half_precision": ("Pendulum-v1", lambda env: wrappers.DtypeObservation(env, np.float16), "g", (5.0, 10.0)),
    "lake": ("FrozenLake-v1", lambda env: env, "ice", (1.0, 2.0)),
    "blackjack": ("Blackjack-v1", lambda env: env, "decks", (1.0, 2.0)),
    "rescaled_choice": ("CartPole-v1", lambda env: wrappers.RescaleAction(env, ZERO, ONE), "gravity", (9.8, 14.0)),
    "delayed": ("Pendulum-v1", lambda env: wrappers.DelayObservation(env, 2), "g", (5.0, 10.0)),
    "sticky": ("Acrobot-v1", lambda env: wrappers.StickyAction(env, 0.25), "LINK_MASS_1", (1.0, 2.0)),
    "fine": ("HalfCheetah-v5", lambda env: wrappers.DiscretizeAction(env, 9), "g", (5.0, 10.0)),
    "clipped": ("Pendulum-v1", wrappers.ClipAction, "g", (5.0, 10.0)),
    "rescaled_infinity": (
        "InvertedPendulum-v5",
        lambda env: wrappers.RescaleObservation(env, ZERO, ONE),
        "g",
        (1.0, 2.0),
    ),
    "old": ("Hopper-v3", lambda env: env, "g", (1.0, 2.0)),
    "racing": ("CarRacing-v3", lambda env: env, "grip", (1.0, 2.0)),
}


def make(name: str, **context: float) -> gymnasium.Env:
    identifier, wrap, parameter, (first, _) = OWN[name]
    env = gymnasium.make(identifier, disable_env_checker=True)
    setattr(env.unwrapped, parameter, context.get(parameter, first))
    return wrap(env)


def family(name: str) -> Family:
    _, _, parameter, contexts = OWN[name]
    own = partial(make, name)
    return Family(
        name, own, parameter, "", contexts, (sum(contexts) / 2,), lambda: BoxTask(own(), "learned", "learned")
    )


def __getattr__(name: str) -> Callable[[], Family]:
    if name not in OWN:
        raise AttributeError(name)
    return partial(family, name)
