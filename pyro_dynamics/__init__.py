"""Learn one dynamics model over many environments, and adapt it online: Perez, Such, Karaletsos (2018) in Pyro.

Importing the package registers its environments with Gymnasium (a command does it later), and is light: torch and the
rest are imported with the first name that needs them.
"""

from pyro_dynamics.command_start import is_command  # isort: skip  # first of all: it handles Ctrl-C

import importlib
from typing import TYPE_CHECKING, Any

from pyro_dynamics.gymnasium_ids import register_all
from pyro_dynamics.version import __version__

if TYPE_CHECKING:
    from pyro_dynamics.environments import FAMILIES, Family, Schedule, find_family
    from pyro_dynamics.interface import fit, load, make, train
    from pyro_dynamics.online_agent import OnlineAgent

__all__ = [
    "FAMILIES",
    "Family",
    "OnlineAgent",
    "Schedule",
    "__version__",
    "find_family",
    "fit",
    "load",
    "make",
    "train",
]

_MODULES = {
    "FAMILIES": "environments",
    "Family": "environments",
    "OnlineAgent": "online_agent",
    "Schedule": "environments",
    "find_family": "environments",
    "fit": "interface",
    "load": "interface",
    "make": "interface",
    "train": "interface",
}
"""Where each name comes from that is imported when it is first asked for (PEP 562)."""

if not is_command():
    register_all()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value  # the next time it is found at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
