"""pyro-dynamics benchmark tracking: tables and figures of what ``pyro-dynamics track`` recorded."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import UserError
from pyro_dynamics.runners.benchmarks.common import ReportFlags
from pyro_dynamics.runners.track import table_of


@dataclass(frozen=True)
class TrackingFlags(ReportFlags):
    """Print the table of beliefs that followed a change, from the rows that `pyro-dynamics track` recorded."""

    figure: Path | None = None
    """Draw the beliefs here (PNG)."""


Flags = TrackingFlags


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return table_of({f"{row['belief']} {row['update']}": row for row in recording.rows})


def figure(recording: Recording) -> bytes:
    """The beliefs' paths as a PNG.

    Raises:
        UserError: if the rows are from before the paths were recorded.
    """
    from pyro_dynamics.plots.tracking_figure import draw_tracks  # here, as matplotlib takes long

    if not all("decoded" in row for row in recording.rows):
        raise UserError("these rows have no paths of beliefs: `pyro-dynamics track` records them again")
    tracks = {
        f"{row['belief']} {row['update']}": SimpleNamespace(decoded=row["decoded"], verdicts=row.get("verdicts", []))
        for row in recording.rows
    }
    return draw_tracks(tracks, np.array(recording.settings["truth"]), recording.settings["axis"])
