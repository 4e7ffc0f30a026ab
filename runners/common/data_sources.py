"""DATA on the command line: .npz files and Minari data sets."""

from collections.abc import Sequence
from pathlib import Path

from pyro_dynamics.datasets.logged_data import Log, LoggedData, group_logs, read_npz
from pyro_dynamics.datasets.minari_data import read_minari
from pyro_dynamics.errors import UserError


def read_data(sources: Sequence[str], group: str | None) -> LoggedData:
    """All sources together, grouped into environments (see :func:`~pyro_dynamics.datasets.logged_data.group_logs`).

    Raises:
        UserError: if one of them cannot be read, or they do not go together.
    """
    if not sources:
        raise UserError("name an .npz file, or a Minari data set by its id or folder")
    return group_logs([read_log(source) for source in sources], group)


def read_log(source: str) -> Log:
    """One file or data set."""
    path = Path(source)
    if path.is_file():
        return read_npz(path)
    if path.suffix == ".npz":
        raise UserError(f"there is no file {path}")
    return read_minari(source)
