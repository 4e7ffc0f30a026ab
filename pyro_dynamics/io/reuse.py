"""What was made before with the same settings is taken up, and not made again: by every command that can be stopped."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import read_json
from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.io.files import plain, write_json


def as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are after they were written and read again: tuples are lists, and keys are words."""
    stored: dict[str, Any] = json.loads(json.dumps(plain(dict(settings))))
    return stored


def differing(there: Mapping[str, Any], wanted: Mapping[str, Any], ignored: Collection[str] = ()) -> list[str]:
    """The names of the settings that are others in one than in the other, or missing in it."""
    one, other = as_stored(there), as_stored(wanted)
    return [name for name in one | other if name not in ignored and one.get(name) != other.get(name)]


def require_same_settings(
    what: str, path: Path, there: Mapping[str, Any], wanted: Mapping[str, Any], ignored: Collection[str] = ()
) -> None:
    """Refuse to take up what is in a folder if it was made with other settings.

    Args:
        what: is there, for people.
        path: the folder.
        there: its settings.
        wanted: those of now.
        ignored: settings that may differ.

    Raises:
        UserError: naming those that differ.
    """
    if names := differing(there, wanted, ignored):
        raise UserError(f"{path} holds {what} with other settings ({', '.join(names)}): choose another --out")


def read_made(file: Path, what: str = "a result") -> dict[str, Any]:
    """The JSON object in a file that can be made again.

    Raises:
        UserError: if it is damaged, saying so.
    """
    try:
        value = read_json(file)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} cannot be read ({first_line(fault)}): delete it, and it is made again") from None
    if not isinstance(value, dict):
        raise not_made(file, what)
    return value


def not_made(file: Path, what: str, why: object = "") -> UserError:
    """That a file does not hold what it should."""
    return UserError(f"{file} does not hold {what}{f' ({why})' if why else ''}: delete it, and it is made again")


def write_result(file: Path, settings: Mapping[str, Any], name: str, result: Any) -> None:
    """Keep a result whole, beside the settings that decide it."""
    write_json(file, {"settings": as_stored(settings), name: plain(result)})


def stored_result(file: Path, settings: Mapping[str, Any], name: str) -> Any:
    """What :func:`write_result` kept with the same settings; None if there is nothing, or of other settings.

    Raises:
        UserError: if the file is damaged.
    """
    if not file.exists():
        return None
    stored = read_made(file, f"a {name}")
    if not isinstance(stored.get("settings"), dict) or name not in stored:
        raise not_made(file, f"a {name}")
    return None if differing(stored["settings"], settings) else stored[name]
