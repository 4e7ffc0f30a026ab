"""pyro-dynamics benchmark reliability: run the fault-injection tests of the checkout, and count them."""

from dataclasses import dataclass
from typing import Any

from pyro_dynamics.benchmarks import reliability
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.io.provenance import PACKAGE
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags


@dataclass(frozen=True)
class ReliabilityFlags(RecordFlags):
    """Run the tests that inject faults, the slow ones too, and record how many pass. Needs the checkout and pytest."""


Flags = ReliabilityFlags


def measure_rows(_: ReliabilityFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    found = progress_bar(reliability.counts(PACKAGE.parent), total=len(reliability.FAULTS), unit="fault")
    return {}, list(found)


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return reliability.table(recording.rows)
