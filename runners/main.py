"""The command ``pyro-dynamics``: runs the named subcommand."""

import errno
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pyro_dynamics.command_start import is_interruptible
from pyro_dynamics.errors import PartFault, UserError
from pyro_dynamics.gymnasium_ids import register_all
from pyro_dynamics.runners.common.lasting_output import outlast_readers
from pyro_dynamics.runners.common.opened_zips import with_opened_zips
from pyro_dynamics.runners.common.renamed import with_new_names
from pyro_dynamics.version import __version__

COMMANDS = {
    "families": "list the families of environments",
    "train": "learn one dynamics model over several environments at once",
    "sweep": "train many runs at once with Ray: agents, guides, seeds and families",
    "adapt": "act in a new or changing environment, and update the belief about it",
    "fit": "learn from logged transitions, without a simulator",
    "export": "write the transitions of a run for other tools: Minari, npz, CSV",
    "share": "make one zip of a run for others, with a model card",
    "evaluate": "score a trained run on its family's test contexts",
    "diagnose": "check the posteriors of a run, or the belief along an adaptation",
    "track": "measure how fast, and at what cost, beliefs follow a change in mid-episode",
    "calibrate": "choose the temperature of the online belief on held-out episodes",
    "reproduce": "make every figure of the paper, with baselines and intervals",
    "compare": "plot the learning curves of several runs",
    "benchmark": "measure speed, planners, collapse and more, record the rows, and make their tables again",
    "accuracy": "measure guides and updates against known posteriors, and time them",
}

RESUMED: set[tuple[str, ...]] = {("adapt",), ("reproduce",), ("sweep",), ("track",)}
RESUMED |= {("benchmark", name) for name in ("belief", "cadm", "ceiling")}
"""The commands that keep what they have made when they are stopped, by their first words; `train` says it itself."""
STOPS: list[KeyboardInterrupt] = []
"""The interrupts of this process, if it is a command."""
NO_ROOM = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG")}
"""A full disk, an exhausted quota, or a file-size limit."""
LIMITS = NO_ROOM | {getattr(errno, name) for name in ("EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "EIO")}
"""Errors of the file system, whatever the program; any other OSError is a bug."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for a mistake of the user's, or what the command says.

    Args:
        arguments: by default those of this process, which then is the command's own.
    """
    if arguments is None:
        stand_alone()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help"):
        print("usage: pyro-dynamics COMMAND [OPTIONS]\n\ncommands:")
        print("\n".join(f"  {name:<10}{summary}" for name, summary in COMMANDS.items()))
        print("\npyro-dynamics COMMAND --help lists the options of a command.")
        return 0
    if command == "--version":
        print(f"pyro-dynamics {__version__}")
        return 0
    if command not in COMMANDS:
        return fail(f"unknown command {command!r}: choose one of {', '.join(COMMANDS)}")
    return run(command, arguments[1:])


def run(command: str, arguments: Sequence[str]) -> int:
    """Run the module of ``command``; a :class:`UserError` becomes one line and exit code 2."""
    try:
        with system_limits(), users_settings_kept():
            register_all()
            runner = importlib.import_module(f"pyro_dynamics.runners.{command}")
            code = runner.main(with_new_names(with_opened_zips(with_home(arguments)))) or 0
            sys.stdout.flush()  # here, where an error of a full disk can still be reported
        return code
    except PartFault as fault:
        if isinstance(fault.__cause__, Exception):  # raised in the user's own code: print its traceback
            traceback.print_exception(fault.__cause__)
        return fail(str(fault))
    except UserError as mistake:
        return fail(str(mistake))
    except (KeyboardInterrupt, Exception) as fault:
        stop = stop_behind(fault) or next(iter(STOPS), None)
        if stop is None:
            raise
        sys.stderr.write(f"\nstopped: {continuation(command, arguments, stop)}\n")
        return 130


def stop_behind(fault: BaseException | None) -> KeyboardInterrupt | None:
    """The interrupt that a library made another error of, as C extensions do that were just being imported."""
    while fault is not None and not isinstance(fault, KeyboardInterrupt):
        fault = fault.__cause__ or fault.__context__
    return fault


def continuation(command: str, arguments: Sequence[str], stop: KeyboardInterrupt) -> str:
    """What to do after a command was stopped."""
    if command == "train" and stop.args:
        return str(stop.args[0])
    kept = {(command,), (command, *arguments[:1])} & RESUMED and "--video" not in arguments  # a film begins anew
    if kept or any(word.split("=")[0] == "--resume" for word in arguments):
        return "the same command resumes it"
    return "the same command begins anew, and earlier results are as they were"


def stand_alone() -> None:
    """Of a process that is a command: no windows, and a reader of its output that leaves does not end its work.

    A notebook hands its own backend down to its shell, where it may not be installed. Interrupts are noted, unless a
    shell has them ignored.
    """
    os.environ["MPLBACKEND"] = "agg"
    outlast_readers()
    if is_interruptible():
        signal.signal(signal.SIGINT, noted_interrupt)


def noted_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise the interrupt, and keep it: libraries that were just being imported may lose it behind their own error."""
    STOPS.append(KeyboardInterrupt())
    signal.default_int_handler(number, frame)


def with_home(arguments: Sequence[str]) -> list[str]:
    """``~`` stands for the home folder after ``--out=`` too, where no shell puts it in."""
    return [
        re.sub(r"^(--[\w.-]+=)?~(?=/|$)", lambda found: (found[1] or "") + str(Path.home()), one) for one in arguments
    ]


@contextmanager
def users_settings_kept() -> Iterator[None]:
    """Of a program that calls a command: its settings of torch and numpy decide nothing, and are as they were after."""
    if "torch" not in sys.modules:  # a process that is a command: there are none
        yield
        return
    from pyro_dynamics.processor import own_settings  # here, as torch takes long to import

    with own_settings():
        yield


@contextmanager
def system_limits() -> Iterator[None]:
    """Turn errors of the operating system's limits into a :class:`UserError`."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in LIMITS or (fault.filename is None and fault.errno not in NO_ROOM):
            raise
        if fault.filename is None:  # most likely the output; the rest of it is dropped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UserError(f"cannot use {fault.filename or 'the output'}: {fault.strerror}") from fault
    except (MemoryError, RuntimeError) as fault:
        if isinstance(fault, MemoryError) or "can't allocate memory" in str(fault):  # torch's message
            raise UserError(f"there is not enough memory for this: {fault}; choose smaller numbers") from fault
        raise


def fail(message: str) -> int:
    """Print a user error in one line; returns the exit code."""
    sys.stderr.write(f"pyro-dynamics: error: {' '.join(message.split())}\n")  # at once: others may write there too
    return 2


def run_as_module(name: str) -> None:
    """For ``python -m pyro_dynamics.runners.NAME``."""
    stand_alone()
    sys.exit(run(name, sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
