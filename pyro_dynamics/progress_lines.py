"""Progress for whoever waits: a bar in a terminal, plain lines where the output goes to a pipe, a log or a notebook."""

import sys
import time
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

SECONDS = 10.0
"""Between two plain lines; what is over sooner prints none."""
LONG = 24 * 3600.0
"""Seconds: what will take longer is said once, in a line that stays."""
SOME = 3
"""Steps after which their speed is known: the first may compile."""
WORDS = "{l_bar} {n_fmt} of {total_fmt} {unit}s, {elapsed}, about {remaining} left{postfix}"


class LongWait:
    """Says once how long something will take, where that is more than a day. It is no question: the work continues."""

    def __init__(self) -> None:
        self._said = False

    def expect(self, seconds: float, what: str) -> None:
        """So many seconds will pass until ``what`` is done."""
        if self._said or seconds < LONG:
            return
        self._said = True
        words = f"this takes {long_time(seconds)} at its present speed: {what}; smaller numbers take less"
        tqdm.write(words, file=sys.stderr)


def long_time(seconds: float) -> str:
    """A day or more, in words."""
    days = seconds / 86_400
    if days < 2:
        return f"about {24 * days:.0f} hours"
    if days < 2 * 365.25:
        return f"about {days:.0f} days"
    return f"about {days / 365.25:.0f} years" if days < 1000 * 365.25 else "more than 1000 years"


class Bar(tqdm):
    """A progress bar that says once where its end is very far."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._wait = LongWait()
        super().__init__(*args, **how)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw it."""
        self.look_ahead()
        super().display(msg, pos)

    def look_ahead(self) -> None:
        """Say how long the rest will take, if very long."""
        done = self.n - self.initial
        if self.total and self.unit != "it" and done >= SOME:
            seconds = (self.total - self.n) * self.format_dict["elapsed"] / done
            self._wait.expect(seconds, f"{self.n} of {self.total} {self.unit}s are done")


class PlainLines(Bar):
    """A progress bar as whole lines, one every ten seconds: carriage returns would make one endless line of a log."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._next = time.monotonic() + SECONDS
        how["bar_format"] = how.get("bar_format", WORDS).replace("{bar}|", "")
        # Looked at now and then whatever the steps take; display() decides.
        super().__init__(*args, **{**how, "mininterval": 1.0, "miniters": 1, "leave": False})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Print the line, if it is time to."""
        self.look_ahead()
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
    """A tqdm bar on standard error, or plain lines where that is no terminal; nothing where there is none.

    Args:
        iterable: what to count, if it is to be counted.
        how: as tqdm takes it: ``total``, ``desc``, ``unit``, ``bar_format``, ...
    """
    kind = Bar if getattr(sys.stderr, "isatty", bool)() else PlainLines  # a logger of one's own may not say
    how = {**how, "disable": True} if sys.stderr is None else how
    return kind(iterable, dynamic_ncols=True, **how)
