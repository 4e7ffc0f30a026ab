"""What files say of the machine that wrote them: absolute paths, names of users and hosts; taken out or found."""

import getpass
import json
import re
import socket
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pyro_dynamics.data_files import parse_json

JSON, LINES, TEXT = (".json",), (".jsonl",), (".md", ".html", ".csv", ".txt")
ROOTS = "home|Users|root|tmp|var|mnt|opt|work|workspace|srv|media|scratch|private|data|gpfs|nfs|content"
"""Folders in the root of a file system in which people's files lie."""
ABSOLUTE = re.compile(rf"(?<![\w.:/\\-])(?:/(?:{ROOTS})|~|[A-Za-z]:[\\/]+\w+)(?:[\\/]+[^\\/\s\"'<>|()`,;:]+)+")
"""A path from the root of a file system, or from a home, in running text."""
IMAGES = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+")
"""What is inside a report of one file: among so many letters anything can be found."""
RUN = "run"
"""The key of a run's folder in JSON: of its path the last part is enough."""


def cleaned(name: str, content: bytes) -> bytes:
    """A file's content without absolute paths, of which the last part stays; binary files as they are.

    Args:
        name: of the file, whose ending says its kind.
        content: what it holds.

    Raises:
        ValueError: if it is not what its ending says.
    """
    suffix = PurePosixPath(name).suffix
    if suffix in JSON:
        value = parse_json(content.decode())
        short = _shortened(value)
        return content if short == value else (json.dumps(short, indent=2) + "\n").encode()
    if suffix in LINES:
        return b"".join(_clean_line(line) for line in content.splitlines(keepends=True))
    if suffix in TEXT:
        return ABSOLUTE.sub(lambda found: _last(found.group()), content.decode()).encode()
    return content


def _clean_line(line: bytes) -> bytes:
    value = parse_json(line.decode()) if line.strip() else None
    short = _shortened(value)
    return line if short == value else (json.dumps(short) + "\n").encode()


def _shortened(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _shortened(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, key) for part in value]
    if not isinstance(value, str):
        return value
    if key == RUN or _is_path(value):
        return _last(value)
    return ABSOLUTE.sub(lambda found: _last(found.group()), value)


def _is_path(text: str) -> bool:
    """Whether a whole text is a path that says where on a machine something lies."""
    if PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute() or text.startswith("~"):
        return True
    return ".." in re.split(r"[\\/]", text)


def _last(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def find_private(name: str, content: bytes, places: Iterable[Path] = ()) -> str | None:
    """The first thing in a file, or in its name, that says where or by whom it was made; None if there is nothing.

    Args:
        name: of the file.
        content: what it holds.
        places: folders whose absolute paths must not be in it.
    """
    suffix = PurePosixPath(name).suffix
    known = [str(place.resolve()) for place in (*places, Path.home()) if len(place.resolve().parts) > 1]
    words = [rf"[\\/]{re.escape(getpass.getuser())}[\\/\"']"]
    host = socket.gethostname()
    if len(host) > 3 and host != "localhost":
        words.append(rf"\b{re.escape(host)}\b")
    words += [rf"{re.escape(place)}(?=[\\/\"'\s]|$)" for place in known]
    private = re.compile("|".join(words))
    if suffix not in (*JSON, *LINES, *TEXT):
        texts = [name, content.decode("latin-1")]
        found = next((match for text in texts if (match := private.search(text))), None)
        return found.group()[:100] if found else None
    text = name + "\n" + IMAGES.sub("", content.decode(errors="replace"))
    found = private.search(text) or ABSOLUTE.search(text)
    return found.group()[:100] if found else None
