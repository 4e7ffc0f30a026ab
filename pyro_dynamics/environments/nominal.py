"""The nominal context of a family: what its simulator has where nobody asks for another."""

from collections.abc import Sequence

import gymnasium
import numpy as np

from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.contexts import Context, as_context
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.hidden_parameter import hidden_parameter
from pyro_dynamics.errors import UserError


def nominal_context(family: Family) -> Context:
    """The context with which an environment is made when none is given.

    Where the constructor needs one it is the trained context that is nearest to the middle of all.
    """
    make = family.environment
    try:
        env = gymnasium.make(make, disable_env_checker=True) if isinstance(make, str) else make()
    except TypeError:
        return middle(family.train)
    hidden = hidden_parameter(env)
    values = [getattr(env.unwrapped, name, None) for name in family.parameters] if hidden is None else [hidden.context]
    env.close()
    try:
        if hidden is not None or isinstance(values[0], str):
            return family.parse_context(values[0])
        return family.parse_context(as_context([float(value) for value in values]))  # type: ignore[arg-type]
    except (TypeError, ValueError, UserError):
        return middle(family.train)


def middle(contexts: Sequence[Context]) -> Context:
    """The context nearest to the mean of all; the first of names."""
    if isinstance(contexts[0], str):
        return contexts[0]
    return contexts[int(_distances(contexts, columns(contexts).mean(0)).argmin())]


def farthest(context: Context, contexts: Sequence[Context]) -> Context:
    """The context that is farthest from one, each parameter measured in its range; of names the next one.

    Of a name that is not among them it is the last, as the first is mostly the nominal one (the healthy body).
    """
    if isinstance(context, str):
        others = [other for other in contexts if other != context]
        return others[-1] if context not in contexts else others[contexts.index(context) % len(others)]
    return contexts[int(_distances(contexts, columns([context])[0]).argmax())]


def _distances(contexts: Sequence[Context], place: np.ndarray) -> np.ndarray:
    """Of n contexts from a place ``[P]``, ``[n]``."""
    values = columns(contexts)
    spread = np.ptp(values, axis=0)
    distances: np.ndarray = (((values - place) / np.where(spread > 0, spread, 1.0)) ** 2).sum(1)
    return distances
