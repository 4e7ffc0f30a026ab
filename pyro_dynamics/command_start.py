"""The first moments of a command: a Ctrl-C while Python is still importing is one line, and no traceback."""

import os
import signal
import sys
from typing import Any


def is_command() -> bool:
    """Whether this process is ``pyro-dynamics``, or ``python -m pyro_dynamics``, and no program that imports us."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name != "-m":
        return name.startswith("pyro-dynamics")
    return sys.orig_argv[sys.orig_argv.index("-m") + 1].split(".")[0] == "pyro_dynamics"


def stop_at_once(*_: Any) -> None:
    """End the process: nothing has begun."""
    os.write(2, b"\nstopped: before the command began\n")
    os._exit(130)


def is_interruptible() -> bool:
    """Whether a Ctrl-C still does what it does by default, or before a command: a shell may have it ignored."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, stop_at_once)


if is_command() and is_interruptible():
    signal.signal(signal.SIGINT, stop_at_once)  # until runners/main.py has another handler
