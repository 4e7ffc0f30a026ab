"""The metrics of a run in Trackio's database on this machine."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyro_dynamics.errors import UserError, first_line
from pyro_dynamics.rollouts.trackers.contract import PROJECT, run_id, scalars


def package() -> Any:
    """Trackio.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import trackio
    except ImportError as fault:
        raise UserError(f"Trackio is not installed ({first_line(fault)}): pip install trackio") from None
    return trackio


def open_run(folder: Path, first: int, config: Mapping[str, Any]) -> "Trackio":
    """Begin a run there, or continue that of a resumed run, whose steps up to ``first`` it has."""
    return Trackio(folder, config)


class Trackio:
    """Writes each round's metrics to the project ``pyro-dynamics``; a scalar's step is the round.

    The database is where Trackio has it, which the environment variable ``TRACKIO_DIR`` changes: ``trackio show`` finds
    it there. The run has the name of its folder and an id, since Trackio takes runs of one name for one.

    Args:
        folder: of the run.
        config: its configuration.

    Raises:
        UserError: if Trackio is not installed, or cannot write.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        trackio = package()
        try:
            self.run: Any = trackio.init(
                project=PROJECT,
                name=f"{folder.name}-{run_id(folder, 'trackio')}",
                resume="allow",
                config=dict(config),
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
        except (OSError, sqlite3.Error) as fault:
            raise UserError(f"Trackio cannot write: {first_line(fault)}; name another folder by TRACKIO_DIR") from None

    def round(self, m: int, rows: Sequence[Mapping[str, Any]], elbo: float | None) -> None:
        self.run.log(dict(scalars(rows, elbo)), step=m)

    def close(self) -> None:
        self.run.finish()
