"""What the benchmarks' flags have in common."""

from dataclasses import dataclass
from pathlib import Path

from pyro_dynamics.errors import UserError


@dataclass(frozen=True)
class ReportFlags:
    """Of a benchmark whose rows another command records."""

    report: Path | None = None
    """Print the table of the rows in this file, or of every file in this folder; nothing is measured."""


@dataclass(frozen=True)
class RecordFlags(ReportFlags):
    """Of a benchmark that measures."""

    out: Path | None = None
    """Record the rows, with commit, date and processor: a JSON file, or a folder that gets NAME.json."""
    threads: int = 1
    """CPU threads."""
    avx2: bool = False
    """Imitate a processor without AVX-512 and AMX: CPUID is answered so, in a process of its own (Linux, x86-64)."""


def file_of(flags: RecordFlags, name: str) -> Path | None:
    """Where a benchmark records its rows, if anywhere."""
    out = flags.out
    return out if out is None or out.suffix == ".json" else out / f"{name}.json"


def require_run(run: Path | None, name: str) -> Path:
    """The folder of the run that a benchmark reads.

    Raises:
        UserError: if none was given.
    """
    if run is None:
        raise UserError(f"give the folder of a trained run: pyro-dynamics benchmark {name} RUN")
    return run
