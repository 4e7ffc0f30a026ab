"""What the folder of a stranger may not do: lead outside of itself, bring code, or pretend to an unknown format."""

import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyro_dynamics.errors import UserError

FORMAT = 1
"""Of the folders that are written now. Those from before there was a number have none, and are read as well."""


def stamped(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a JSON file, with the format of its folder."""
    return {"format": FORMAT, **values}


def unstamped(values: dict[str, Any], file: Path) -> dict[str, Any]:
    """The values without the format.

    Raises:
        UserError: if the format is not known here.
    """
    found = values.get("format", 0)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise UserError(f"{file} is damaged: its format is {str(found)[:40]!r}, not a number such as {FORMAT}")
    if found > FORMAT:
        raise UserError(
            f"{file} was made by a newer version of pyro-dynamics (format {str(found)[:40]}; this version reads up to "
            f"{FORMAT}): upgrade pyro-dynamics"
        )
    return {name: value for name, value in values.items() if name != "format"}


def require_inside(folder: Path) -> None:
    """Refuse links inside a folder that lead out of it: what is written or removed there would be somebody else's.

    The folder itself may be a link.

    Raises:
        UserError: naming the first such link.
    """
    home = folder.resolve()
    for here, folders, files in os.walk(home):
        for name in (*folders, *files):
            entry = Path(here, name)
            if entry.is_symlink() and not _target(entry).is_relative_to(home):
                raise UserError(
                    f"{folder / entry.relative_to(home)} is a link to a place outside of {folder}: put a copy there in "
                    "its stead"
                )


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # a ring of links
        return Path(link.anchor)


def require_own_code(kind: str, name: Any, folder: Path) -> None:
    """Refuse a part that a folder names, ``package.module:callable``, where its code came with that folder.

    It is found as :func:`~pyro_dynamics.registry.import_object` finds it, without importing anything; names of
    registered parts, and names of what is not there, pass.

    Args:
        kind: what is named: family, guide, belief, update or planner.
        name: the word.
        folder: that names it.

    Raises:
        UserError: if the module lies in the folder, or is one of Python's own, none of which holds such a part.
    """
    if not isinstance(name, str) or ":" not in name:
        return
    parts = name.partition(":")[0].split(".")
    if parts[0] in sys.stdlib_module_names or parts[-1] == "__main__":
        raise UserError(f"{folder} names the {kind} {name!r}, and that is a part of Python, not a module with one")
    home = folder.resolve()
    for place in _places(parts):
        if Path(place).resolve().is_relative_to(home):
            raise UserError(
                f"{folder} names the {kind} {name!r}, whose code would come from {place}, inside that folder: code out "
                "of a run is not run; install the module, or give the command in a folder of your own that holds it"
            )


def _places(parts: list[str]) -> list[str]:
    """Where a module, and the packages around it, would be loaded from."""
    places: list[str] = []
    spec = _top(parts[0])
    for count in range(1, len(parts) + 1):
        if count > 1:
            inside = None if spec is None else spec.submodule_search_locations
            spec = PathFinder.find_spec(".".join(parts[:count]), inside) if inside is not None else None
        if spec is None:
            break
        places += [spec.origin] if spec.origin else []
        if count == len(parts) or spec.origin is None:  # of a package without code the places are looked through
            places += [] if count < len(parts) else list(spec.submodule_search_locations or ())
    return places


def _top(name: str) -> ModuleSpec | None:
    """As an import finds it, with the current folder before all others."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    try:
        return loaded or PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    except (ValueError, ImportError):
        return None


def file_name(text: str) -> str:
    """The name of a file or folder out of a text that may hold anything: one part of a path, and not too long."""
    return re.sub(r"[^\w.,=+-]", "_", text)[:100].lstrip(".") or "_"
