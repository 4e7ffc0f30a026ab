"""Files that are written whole or not at all."""

import json
import math
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from xarray import DataTree

from pyro_dynamics.errors import UserError


def make_folder(path: Path) -> Path:
    """Make a folder, and those above it, before the work whose results it shall hold.

    Raises:
        UserError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UserError(f"cannot write to {path}: {fault.strerror}") from None
    return path


def make_room(file: Path) -> Path:
    """Make the folder of a file, before the work whose results the file shall hold.

    Raises:
        UserError: if it cannot be made, or the file is a folder.
    """
    if file.is_dir():
        raise UserError(f"{file} is a folder: name a file in it")
    make_folder(file.parent)
    return file


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, bring it to the disk, and move it into place.

    Raises:
        UserError: if the file cannot be written; what was there before is left as it was.
    """

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            write(file)

    _into_place(path, fill)


def _into_place(path: Path, fill: Callable[[Path], object]) -> None:
    temporary = path.with_name(path.name + ".part")
    try:
        fill(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as fault:
        with suppress(OSError):  # where it could not be made, it cannot be deleted either
            temporary.unlink(missing_ok=True)
        reason = os.strerror(fault.errno) if fault.errno else str(fault).splitlines()[0]
        raise UserError(f"cannot write {path}: {reason}") from fault


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, such as a picture."""
    write_whole(path, lambda file: file.write(content))


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value, indented."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def plain(value: Any) -> Any:
    """The value as JSON knows it: dataclasses as objects, arrays as lists, NaN and infinities as words."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_tree(path: Path, tree: DataTree) -> None:
    """Write a DataTree as netCDF."""
    _into_place(path, lambda temporary: tree.to_netcdf(temporary, engine="h5netcdf"))


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line."""
    write_bytes(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
