"""One process at a time on a folder."""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import make_folder, reason

LOCK = "lock"
"""The file in the folder; it stays there, for to remove it would let two processes hold one of that name each."""


class Busy(UserError):
    """Another process, or another part of this one, works on the folder."""


@contextmanager
def lock_folder(
    path: Path, wait: bool = False, name: str = LOCK, instead: str = "choose another --out"
) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, for the ``with`` block.

    The system releases it when the process ends, however it ends: a killed run leaves no lock. On file systems that
    cannot lock (some network drives) a warning says so, and nothing is held.

    Args:
        path: the folder.
        wait: until whoever holds it lets go, where that is soon.
        name: of the file.
        instead: what can be done in place of waiting, for the message.

    Raises:
        Busy: if it is held already, and not waited for.
        UserError: if the folder cannot be written to.
    """
    held: AbstractContextManager[object] = nullcontext()
    try:
        held = FileLock(make_folder(path) / name).acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise Busy(f"{path} is in use by another process: wait until that has ended, or {instead}") from None
    except (IsADirectoryError, PermissionError) as fault:
        raise UserError(f"cannot write to {path}: {fault.strerror}") from None
    except OSError as fault:
        _warn(f"this file system cannot lock {path} ({reason(fault)}): let no two processes work on it")
    with held:
        yield


@cache
def _warn(message: str) -> None:
    """A warning, once a process and folder."""
    warnings.warn(message, stacklevel=5)
