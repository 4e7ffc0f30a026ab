"""One process at a time on a run folder."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import make_folder

LOCK = "lock"
"""The file in the folder; it stays there, for to remove it would let two processes hold one of that name each."""


class Busy(UserError):
    """Another process, or another part of this one, works on the folder."""


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, for the ``with`` block.

    The system lets go of it when the process ends, however it ends: a killed run leaves no lock. On file systems that
    cannot lock (some network drives) a warning tells so, and nothing is held.

    Raises:
        Busy: if it is held already.
        UserError: if the folder cannot be written to.
    """
    make_folder(path)
    try:
        file = (path / LOCK).open("ab")
    except OSError as fault:
        raise UserError(f"cannot write to {path}: {fault.strerror}") from None
    with file:
        try:
            _hold(file)
        except (BlockingIOError, PermissionError):  # which of them depends on the system
            raise Busy(
                f"{path} is in use by another process: wait until that has ended, or choose another --out"
            ) from None
        except OSError as fault:
            _tell(f"this file system cannot lock {path} ({fault.strerror}): let no two processes work on it")
        yield


def _hold(file: BinaryIO) -> None:
    """Raises an :class:`OSError` if it cannot be."""
    if sys.platform == "win32":
        import msvcrt  # only there

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    elif os.name == "posix":
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@cache
def _tell(message: str) -> None:
    """A warning, once a process and folder."""
    warnings.warn(message, stacklevel=5)
