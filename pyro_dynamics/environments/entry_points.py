"""A family that is declared elsewhere: ``package.module:callable``."""

import importlib
import sys
from pathlib import Path
from typing import Any

from pyro_dynamics.environments.family import Family
from pyro_dynamics.errors import UserError


def load_family(text: str) -> Family:
    """Import ``package.module``, searched for in the current folder too, and call the object of that name.

    An error inside that module is not caught, so that its author gets the traceback.

    Raises:
        UserError: if there is no such module or name, or if it does not give a :class:`Family`.
    """
    module_name, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise UserError(
            f"a family of your own is written package.module:callable, without slashes or .py, not {text!r}"
        )
    if module_name.endswith(".py"):
        raise UserError(f"leave out the .py: {module_name.removesuffix('.py')}:{name}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as fault:
        # Only where the module itself, or a package around it, is missing; not where IT misses another one.
        if fault.name is None or not f"{module_name}.".startswith(f"{fault.name}."):
            raise
        raise UserError(
            f"there is no module {fault.name!r}, neither installed nor in {here}: {text!r}; run the command in the "
            "folder that holds it, or name that folder in PYTHONPATH"
        ) from None
    if not hasattr(module, name):
        raise UserError(f"the module {module_name!r} has no {name!r}: {text!r}")
    found: Any = getattr(module, name)
    family = found() if callable(found) else found
    if not isinstance(family, Family):
        raise UserError(f"{text!r} gives a {type(family).__name__}, not a pyro_dynamics.Family")
    return family
