"""Files from strangers, read as data: never code, and never more memory than the file itself can justify.

Everything here raises OSError or ValueError, with one line of words; who calls it tells which file, and what to do.
"""

import json
import math
import stat
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

LARGEST_VALUE = 64 * 2**20
"""Bytes of a file that holds one JSON value: the configurations and tables that are made here have a few thousand."""
LARGEST_TEXT = 2**30
"""Bytes of a file of lines."""
FREE, TIMES = 2**30, 100
"""Arrays may unpack to a GiB, or to so many times the size of their file: data does not deflate a thousandfold."""
MEMBERS = 10_000
"""Arrays in a file."""
LARGEST_NUMBER = 1e39
"""What is measured or learned is float32 and smaller than that."""


def read_text(path: Path, largest: int = LARGEST_TEXT) -> str:
    """The text of a file, if it is one, and not too large."""
    require_file(path, largest)
    with path.open("rb") as file:
        return file.read(largest).decode()


def read_json(path: Path) -> Any:
    """The one JSON value in a file."""
    return parse_json(read_text(path, LARGEST_VALUE))


def parse_json(text: str) -> Any:
    """A JSON value; one that is nested too deeply to be honest is refused like one that is none."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_count(value: Any) -> bool:
    """Whether a value out of a file is a whole number from 0 on that can count something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def is_number(value: Any) -> bool:
    """Whether a value out of a file is a finite number, and one that float32 can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST_NUMBER < value < LARGEST_NUMBER  # NaN compares false; whole numbers of any size compare


def is_numbers(value: Any) -> bool:
    """Whether a value out of a file is a list of such numbers."""
    return isinstance(value, list) and all(map(is_number, value))


def is_context(value: Any) -> bool:
    """Whether a value out of a file can be a context: a number, a name, or a number for each of several parameters."""
    return is_number(value) or isinstance(value, str) or (bool(value) and is_numbers(value))


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz``, each of which is as large as its header says, before memory is taken for it.

    Args:
        path: the file.
        names: which arrays; all by default.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no ``.npz``, an array is missing, of Python objects, or not as it says, or all of them
            together are too large.
    """
    size = require_file(path)
    try:
        with ZipFile(path) as archive:
            members = _members(archive, names, max(FREE, TIMES * size))
            return {name: _array(archive, member, name) for name, member in members.items()}
    except (OSError, ValueError):
        raise
    except MemoryError:
        raise ValueError("its arrays do not fit into memory") from None
    except Exception as fault:  # zipfile and its decompressors raise many kinds for a damaged file
        raise ValueError(str(fault) or type(fault).__name__) from None


def _members(archive: ZipFile, names: Collection[str] | None, largest: int) -> dict[str, str]:
    """The member of each array that is wanted."""
    infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    found = {info.filename.removesuffix(".npy"): info for info in infos}
    if len(found) < len(infos) or len(infos) > MEMBERS:
        raise ValueError("it holds an array twice, or too many")
    missing = [name for name in names or () if name not in found]
    if missing:
        raise ValueError(f"it has no array {', '.join(missing)}")
    wanted = {name: info for name, info in found.items() if names is None or name in names}
    total = sum(info.file_size for info in wanted.values())
    if total > largest:
        raise ValueError(f"its arrays would unpack to {total / 2**30:.1f} GiB, far more than such a file can hold")
    return {name: info.filename for name, info in wanted.items()}


def _array(archive: ZipFile, member: str, name: str) -> np.ndarray:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"the array {name} is in a form of numpy's that is not read here")
        shape, _, dtype = readers[version](file)
        length = archive.getinfo(member).file_size - file.tell()
    if dtype.hasobject:
        raise ValueError(f"the array {name} holds Python objects, which would be code")
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not dtype.itemsize or claimed != length:
        raise ValueError(f"the array {name} says that it is {dtype} {list(shape)}, and has {length} bytes")
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


def repacked(source: IO[bytes], target: IO[bytes]) -> None:
    """Write the members of an archive, as they are read and checked here, into a new one without compression.

    So that another reader cannot find in the file what was not seen here.

    Raises:
        ValueError: if a member is compressed, or there twice.
    """
    with ZipFile(source) as archive, ZipFile(target, "w") as fresh:
        infos = archive.infolist()
        if len({info.filename for info in infos}) < len(infos):
            raise ValueError("it holds a record twice")
        for info in infos:
            if info.compress_type != ZIP_STORED or info.file_size != info.compress_size:
                raise ValueError("it is compressed")
            fresh.writestr(info.filename, archive.read(info))


def require_file(path: Path, largest: int | None = None) -> int:
    """Bytes of a file; raises ValueError for pipes and devices, which would not end, and for one that is too large."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no file")
    if largest is not None and status.st_size > largest:
        raise ValueError(f"it has {status.st_size} bytes, more than the {largest} that such a file may have")
    return status.st_size
