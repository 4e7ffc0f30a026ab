"""Logged transitions in an ``.npz``."""

from pathlib import Path
from zipfile import is_zipfile

from pyro_dynamics.data_files import read_arrays, require_file
from pyro_dynamics.datasets.file_kinds import unreadable
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.errors import UserError, first_line


def read_npz(file: Path, group: str | None = None, names: ColumnNames | None = None) -> Log:
    """One ``.npz``: state, action, next_state, and optionally reward, step, episode and columns to group by.

    Args:
        file: its path.
        group: the column that identifies environments.
        names: what its arrays are called.

    Raises:
        UserError: if an array is missing, not of numbers, of a wrong shape or length, or not finite.
    """
    try:
        require_file(file)
        with file.open("rb") as content:  # is_zipfile would report an unreadable file as another kind
            if not is_zipfile(content):
                raise unreadable(file, ".npz", "its end is missing")
        arrays = read_arrays(file)
    except (OSError, ValueError) as fault:
        raise UserError(f"{file} cannot be read: {first_line(fault)}") from None
    return log_of_arrays(str(file), arrays, group, names or ColumnNames())
