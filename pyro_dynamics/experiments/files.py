"""Files that are written whole or not at all."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, bring it to the disk, and move it into place."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, indented."""
    write_whole(path, lambda file: file.write((json.dumps(value, indent=2) + "\n").encode()) and None)


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_whole(path, lambda file: file.write(text.encode()) and None)
