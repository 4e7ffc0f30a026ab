"""A family that is declared elsewhere: ``package.module:callable``."""

import inspect
from collections.abc import Callable
from typing import Any

from pyro_dynamics.environments.family import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.registry import import_object


def load_family(text: str) -> Family:
    """Import ``package.module``, searched for in the current folder too, and call the object of that name.

    Raises:
        UserError: if there is no such module or name, or if it does not give a :class:`Family`.
    """
    found: Any = import_object(text, "family of your own")
    family = call_maker(found, repr(text)) if callable(found) else found
    if not isinstance(family, Family):
        raise UserError(f"{text!r} gives a {type(family).__name__}, not a pyro_dynamics.Family")
    return family


def call_maker(maker: Callable[..., Any], name: str) -> Any:
    """What a function without arguments makes.

    Raises:
        UserError: if it needs any, as a reward or an environment in the place of a family does.
    """
    try:
        inspect.signature(maker).bind()
    except TypeError as fault:
        raise UserError(
            f"{name} needs arguments ({fault}): name a pyro_dynamics.Family, or a function without arguments that "
            "makes one"
        ) from None
    except ValueError:  # it does not say what it takes
        pass
    return maker()
