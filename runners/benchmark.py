"""pyro-dynamics benchmark: measure and record rows, or print their tables again."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks.recording import Recording, read_recordings, save_recording
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent, write_bytes
from pyro_dynamics.processor import set_threads
from pyro_dynamics.runners.benchmarks.common import file_of
from pyro_dynamics.runners.benchmarks.imitation import imitate
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module

BENCHMARKS = {
    "speed": "times of plans, updates and training, and mbrl-lib's where it is installed (the default)",
    "engines": "the networks of a plan by torch, our C, ONNX Runtime and OpenVINO, and which is chosen here",
    "scaling": "how the cost of a plan grows with each of its sizes",
    "planners": "returns of every planner with one trained model",
    "belief": "what beliefs are worth on unseen contexts and after changes",
    "training": "returns of trainings over seeds, and their CPU time",
    "returns": "whether one set of runs earns more than another",
    "ceiling": "returns with the true dynamics as the model, and what a context is worth",
    "collapse": "what keeps a latent from being ignored",
    "guides": "two guides on one network, weighed and compared",
    "cadm": "returns on CaDM's benchmark families",
    "neural-fly": "the force on a real drone in winds, predicted causally",
    "crossed-states": "predictions in states of other contexts' episodes",
    "long-run": "whether time or memory per update grows",
    "long-control": "the same for whole steps of control",
    "reliability": "the fault-injection tests, counted",
    "tracking": "recorded by `pyro-dynamics track`: tables and figures",
    "accuracy": "recorded by `pyro-dynamics accuracy`: tables",
    "reproduction": "recorded by `pyro-dynamics reproduce`: the report",
    "index": "the pages with recorded rows, and where the rows come from",
    "pages": "renew the tables of pages from recorded rows",
}
"""Each is a module of ``runners/benchmarks`` with ``Flags``, ``table`` and, where it measures, ``measure_rows``."""
DEFAULT = "speed"


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    name, rest = named(arguments)
    module = module_of(name)
    flags = read_flags(module.Flags, f"benchmark {name}", rest)
    if hasattr(module, "main"):
        module.main(flags)
        return
    if getattr(flags, "avx2", False) and flags.report is None:
        if code := imitate([name, *rest]):
            sys.exit(code)
        return
    if flags.report is not None:
        found = recordings_of(name, module, flags.report)
    elif hasattr(module, "measure_rows"):
        found = [recorded(name, module, flags)]
    else:
        raise UserError(f"{BENCHMARKS[name].partition(':')[0]}: give --report FILE to print its table")
    print("\n\n".join(show(module, recording) for recording in found))
    if getattr(flags, "figure", None) is not None:
        write_bytes(ensure_parent(flags.figure), module.figure(found[-1]))
        print(f"figure: {flags.figure}")


def named(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The name of the benchmark, the first argument if it is no flag, and the rest.

    Raises:
        UserError: if there is no such benchmark.
    """
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print("usage: pyro-dynamics benchmark [NAME] [OPTIONS]\n\nbenchmarks:")
            print("\n".join(f"  {name:<16}{words}" for name, words in BENCHMARKS.items()))
            print(f"\nOptions of {DEFAULT}; `pyro-dynamics benchmark NAME --help` lists those of another.\n")
        return DEFAULT, list(arguments)
    if arguments[0] not in BENCHMARKS:
        raise UserError(f"there is no benchmark {arguments[0]!r}: choose one of {', '.join(BENCHMARKS)}")
    return arguments[0], list(arguments[1:])


def module_of(name: str) -> Any:
    """The module of a benchmark."""
    return importlib.import_module(f"pyro_dynamics.runners.benchmarks.{name.replace('-', '_')}")


def recorded(name: str, module: Any, flags: Any) -> Recording:
    """Measure, and record the rows if a place was given."""
    out = file_of(flags, name)
    if out is not None:
        ensure_parent(out)  # before the work, not after it
    set_threads(flags.threads)
    recording = Recording(name, *module.measure_rows(flags))
    if out is not None:
        save_recording(recording, out)
        print(f"rows: {out}")
    return recording


def recordings_of(name: str, module: Any, path: Path) -> list[Recording]:
    """Those in a file or folder; of another command's rows the module knows how they are stored."""
    found: list[Recording] = module.read(path) if hasattr(module, "read") else read_recordings(path, name)
    return found


def show(module: Any, recording: Recording) -> str:
    """Its table, and where its rows come from, unless the table says so itself."""
    table: str = module.table(recording)
    return f"{table}\n\n{recording.source}" if recording.provenance else table


def report(arguments: Sequence[str]) -> str:
    """What the command prints with ``NAME --report FILE`` among these arguments."""
    name, rest = named(arguments)
    module = module_of(name)
    flags = read_flags(module.Flags, f"benchmark {name}", rest)
    return "\n\n".join(show(module, recording) for recording in recordings_of(name, module, flags.report))


if __name__ == "__main__":
    run_as_module("benchmark")
