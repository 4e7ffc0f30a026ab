"""A family that is declared elsewhere: ``package.module:callable``."""

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
    family = found() if callable(found) else found
    if not isinstance(family, Family):
        raise UserError(f"{text!r} gives a {type(family).__name__}, not a pyro_dynamics.Family")
    return family
