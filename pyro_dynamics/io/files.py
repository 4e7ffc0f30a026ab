"""Files that are written whole or not at all."""

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

from pyro_dynamics.data_files import at_home
from pyro_dynamics.errors import UserError, first_line

if TYPE_CHECKING:
    from xarray import DataTree


def path_of(path: Any) -> Path:
    """A path as a user gives it: ``~`` is the home folder.

    Raises:
        UserError: if it is something else.
    """
    if not isinstance(path, str | os.PathLike):
        raise UserError(f"a path is text or a pathlib.Path, not {path!r:.60}")
    return at_home(Path(path))


def make_folder(path: Path) -> Path:
    """Make a folder, and those above it, before the work whose results it shall hold.

    Raises:
        UserError: if it cannot be made, or nothing can be written into it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path).close()  # it may have been there before, and be read-only
    except OSError as fault:
        raise UserError(f"cannot write to {path}: {fault.strerror}") from None
    return path


RUN_FILES = {
    *("config.json", "environment.json", "metrics.jsonl", "lock"),
    *("data.json", "learning.jsonl", "trackers.json"),
}
RUN_FOLDERS = {"transitions", "checkpoints"}
"""What a run consists of: no result may be written over it."""


def results_folder(folder: Path, source: Path | None = None) -> Path:
    """Make the folder of a command's results: one of their own, for what lies in a run belongs to it.

    Args:
        folder: the place.
        source: the run, or the results, that the command reads; its own default places are inside of it.

    Raises:
        UserError: if the folder is a run or the source, holds the source, lies where a run keeps its parts, or cannot
            be made.
    """
    place, own = folder.resolve(), None if source is None else source.resolve()
    if own is not None and own.is_relative_to(place):
        what = "is" if own == place else "holds"
        raise UserError(f"--out {folder} {what} {source}, which is read: name a folder for the results alone")
    if (place / "config.json").is_file():
        raise UserError(f"--out {folder} is a run: name a folder for the results alone")
    for part in (place, *place.parents):
        if part.name in RUN_FOLDERS and (part.parent / "config.json").is_file():
            raise UserError(f"--out {folder} is a part of the run in {part.parent}: name another folder")
    return make_folder(folder)


def ensure_parent(file: Path) -> Path:
    """Make the folder of a file, before the work whose results the file shall hold.

    Raises:
        UserError: if it cannot be made or written into, or the file is a folder, or a part of a run.
    """
    if file.is_dir():
        raise UserError(f"{file} is a folder: name a file in it")
    if is_stream(file):
        return file
    place = file.resolve()
    run = place.parent.parent if place.parent.name in RUN_FOLDERS else place.parent if place.name in RUN_FILES else None
    if run is not None and (run / "config.json").is_file():
        raise UserError(f"{file} is a part of the run in {run}: choose another name")
    make_folder(place.parent if file.is_symlink() else file.parent)
    return file


def is_stream(file: Path) -> bool:
    """Whether it is there and no ordinary file: a pipe, or a device such as ``/dev/stdout``."""
    try:
        mode = file.stat().st_mode
    except OSError:  # it is not there, or may not be looked at
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def unfinished(path: Path) -> Path:
    """A place beside a file or folder to make it in, another one each time: two processes may make the same file."""
    return path.with_name(f"{path.name}.{token_hex(4)}.part")


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, bring it to the disk, and move it into place.

    Where several processes write the same file at once, that of the last stays. A link stays a link, and what it leads
    to is written; into a pipe or a device all is written at once.

    Raises:
        UserError: if the file cannot be written; what was there before is left as it was.
    """
    if is_stream(path):
        _write_through(path, write)
        return
    path = path.resolve() if path.is_symlink() else path
    temporary = unfinished(path)
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as fault:
        with suppress(OSError):  # where it could not be made, it cannot be deleted either
            temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {reason(fault)}") from fault


def _write_through(stream: Path, write: Callable[[BinaryIO], object]) -> None:
    """Into a stream, in which nobody can go back."""
    whole = BytesIO()
    write(whole)
    try:
        with stream.open("wb") as opened:
            opened.write(whole.getbuffer())
    except OSError as fault:
        raise UserError(f"cannot write {stream}: {reason(fault)}") from fault


def reason(fault: OSError) -> str:
    """Why something could not be written, in the system's words."""
    return os.strerror(fault.errno) if fault.errno else first_line(fault)


def check_free_space(folder: Path, size: int) -> None:
    """See whether a folder's disk takes so many bytes, before a library writes there that would crash if it does not.

    Raises:
        OSError: if it does not.
    """
    with TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # not on macOS, nor on Windows
            os.posix_fallocate(file.fileno(), 0, size)
        elif disk_usage(folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write bytes, such as a figure."""
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


def write_tree(path: Path, tree: "DataTree") -> None:
    """Write a DataTree as netCDF: first into memory, for on a full disk HDF5 crashes when Python ends."""
    write_bytes(path, tree.to_netcdf(engine="h5netcdf"))


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON value a line."""
    write_bytes(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
