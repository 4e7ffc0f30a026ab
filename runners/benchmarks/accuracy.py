"""pyro-dynamics benchmark accuracy: the tables of what ``pyro-dynamics accuracy`` recorded."""

from dataclasses import dataclass
from pathlib import Path

from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.io.provenance import UNKNOWN
from pyro_dynamics.io.reuse import not_made, read_made
from pyro_dynamics.runners.accuracy import tables_of
from pyro_dynamics.runners.benchmarks.common import ReportFlags


@dataclass(frozen=True)
class AccuracyReportFlags(ReportFlags):
    """Print the tables of guides against known posteriors, from the rows that `pyro-dynamics accuracy` recorded."""


Flags = AccuracyReportFlags
FILE = "accuracy.json"


def read(path: Path) -> list[Recording]:
    """What is in such a file, or in the folder of one.

    Raises:
        UserError: if it holds something else.
    """
    file = path / FILE if path.is_dir() else path
    values = read_made(file, "the rows of an accuracy")
    if not isinstance(values.get("flags"), dict):
        raise not_made(file, "the rows of an accuracy")
    return [Recording("accuracy", values["flags"], [values], values.get("provenance") or UNKNOWN)]


def table(recording: Recording) -> str:
    """The parts that were measured, as Markdown."""
    return "\n\n".join(tables_of(recording.rows[0]).values())
