"""Files that somebody else may have written, read as data: nothing in them is run.

Everything here raises OSError or ValueError with one line of words; the caller names the file, and says what to do.
"""

import json
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NewType, TypeVar

import cattrs
import numpy as np
from numpy.lib.npyio import NpzFile

LARGEST_NUMBER = 1e39
"""What is measured or learned is float32 and smaller than that."""

T = TypeVar("T")
Count = NewType("Count", int)
"""A whole number from 0 on that can count something."""
Finite = NewType("Finite", float)
"""A finite number, and one that float32 can hold."""
AnyContext = NewType("AnyContext", object)
"""A context as JSON has it: a number, a name, or a list of numbers for several parameters."""


def at_home(path: Path) -> Path:
    """The path, with the home folder in place of a ``~`` before it."""
    return path.expanduser() if path.parts[:1] == ("~",) else path


def read_text(path: Path) -> str:
    """The text of a file, if it is one; without the mark that Windows' programs put before it."""
    require_file(path)
    return path.read_bytes().decode("utf-8-sig")


def read_json(path: Path) -> Any:
    """The one JSON value in a file."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """A JSON value."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def structure(value: Any, cls: type[T]) -> T:
    """The value of a JSON file as a dataclass or a TypedDict, whose fields it must have with values of their types.

    Raises:
        ValueError: naming the fields that are missing or something else.
    """
    try:
        return CONVERTER.structure(value, cls)
    except Exception as fault:  # cattrs raises a group with one error for each field
        raise ValueError("; ".join(cattrs.transform_error(fault))[:300]) from None


def is_count(value: Any) -> bool:
    """Whether a value out of a file is a :data:`Count`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and -LARGEST_NUMBER < value < LARGEST_NUMBER  # NaN compares false


def _is_context(value: Any) -> bool:
    numbers = value if isinstance(value, list) and value else [value]
    return isinstance(value, str) or all(map(_is_finite, numbers))


def _only(holds: Callable[[Any], bool]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: Any) -> Any:
        if not holds(value):
            raise ValueError
        return value

    return hook


CONVERTER = cattrs.Converter()
"""Takes values as they are: of itself cattrs would turn the text "3" into a number."""
for kind, holds in (
    *((Count, is_count), (Finite, _is_finite), (AnyContext, _is_context), (float, _is_number)),
    *((kind, lambda value, kind=kind: isinstance(value, kind)) for kind in (str, bool)),
):
    CONVERTER.register_structure_hook(kind, _only(holds))


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz``; those that would have to be unpickled are refused.

    Args:
        path: the file.
        names: which arrays; all by default.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no ``.npz``, or an array is missing, damaged, or of Python objects.
    """
    require_file(path)
    try:
        with path.open("rb") as file, NpzFile(file, allow_pickle=False) as archive:
            return {name: _array(archive, name) for name in (archive.files if names is None else names)}
    except (OSError, ValueError):
        raise
    except MemoryError:
        raise ValueError("its arrays do not fit into memory") from None
    except Exception as fault:  # zipfile and its decompressors raise many kinds for a damaged file
        raise ValueError(
            f"it is damaged: {str(fault).splitlines()[0] if str(fault) else type(fault).__name__}"
        ) from None


def _array(archive: NpzFile, name: str) -> np.ndarray:
    try:
        array = archive[name]
    except KeyError:
        raise ValueError(f"it has no array {name}") from None
    except ValueError as fault:
        objects = "allow_pickle" in str(fault)
        raise ValueError(f"the array {name} {'holds Python objects' if objects else f'is damaged: {fault}'}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is no array")
    return array


def require_file(path: Path) -> None:
    """Raises ValueError for pipes and devices, which would not end, and OSError for what is not there."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no file")
