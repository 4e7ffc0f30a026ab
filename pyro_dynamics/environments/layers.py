"""An environment and the wrappers around it."""

from collections.abc import Iterator

import gymnasium


def layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The wrappers from outside, and then what is inside of all."""
    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env
