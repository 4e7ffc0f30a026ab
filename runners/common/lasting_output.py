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
    """Let this process's output and messages be such streams."""
    sys.stdout, sys.stderr = LastingOutput(sys.stdout), LastingOutput(sys.stderr)
