"""Progress for whoever waits: a bar in a terminal, plain lines where the output goes to a pipe, a log or a notebook."""

import sys
import time
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

SECONDS = 10.0
"""Between two plain lines; what is over sooner prints none."""
WORDS = "{l_bar} {n_fmt} of {total_fmt} {unit}s, {elapsed}, about {remaining} left{postfix}"


class PlainLines(tqdm):
    """A progress bar as whole lines, one every ten seconds: carriage returns would make one endless line of a log."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._next = time.monotonic() + SECONDS
        how["bar_format"] = how.get("bar_format", WORDS).replace("{bar}|", "")
        # Looked at now and then whatever the steps take; display() decides.
        super().__init__(*args, **{**how, "mininterval": 1.0, "miniters": 1, "leave": False})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Print the line, if it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS
        self.fp.write(str(self if msg is None else msg).replace("%|", " %,", 1) + "\n")
        self.fp.flush()

    def clear(self, nolock: bool = False) -> None:
        """Nothing: a line that was printed stays."""

    def close(self) -> None:
        """No last line: what follows says that it is over."""
        self.delay = float("inf")  # then tqdm holds that nothing was printed yet, and prints no end
        super().close()


def progress_bar(iterable: Iterable[Any] | None = None, **how: Any) -> tqdm:
    """A tqdm bar on standard error, or plain lines where that is no terminal.

    Args:
        iterable: what to count, if it is to be counted.
        how: as tqdm takes it: ``total``, ``desc``, ``unit``, ``bar_format``, ...
    """
    kind = tqdm if sys.stderr.isatty() else PlainLines
    return kind(iterable, dynamic_ncols=True, **how)
