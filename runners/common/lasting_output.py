"""Output whose reader may leave, as in ``| head``: what it would have read is dropped, and the work continues."""

import os
import sys
from typing import Any


class LastingOutput:
    """A text stream that writes to nowhere from the moment on at which its reader has gone.

    Args:
        stream: with a file descriptor.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return int(self.stream.write(text))
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            self.stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def outlast_readers() -> None:
    """Let this process's output and messages be such streams; those that are closed at its start lead to nowhere."""
    sys.stdout = LastingOutput(sys.stdout or _nowhere(1))
    sys.stderr = LastingOutput(sys.stderr or _nowhere(2))


def _nowhere(descriptor: int) -> Any:
    """A stream that drops all, under the number of the closed one: no file that is opened later gets that."""
    opened = os.open(os.devnull, os.O_WRONLY)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)  # for the processes that libraries start
    return open(descriptor, "w", closefd=False)
