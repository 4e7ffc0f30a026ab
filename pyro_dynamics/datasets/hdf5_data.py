"""Logged transitions out of HDF5 files, as D4RL has them: arrays by name, in groups such as ``infos``."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pyro_dynamics.data_files import require_file
from pyro_dynamics.datasets.file_kinds import unreadable
from pyro_dynamics.datasets.log import Log
from pyro_dynamics.datasets.log_arrays import ColumnNames, log_of_arrays
from pyro_dynamics.errors import UserError, first_line

ENDINGS = (".hdf5", ".h5")


def read_hdf5(file: Path, group: str | None, names: ColumnNames) -> Log:
    """The arrays of a file; one in a group has a name such as ``infos/gravity``.

    Args:
        file: its path.
        group: the column that identifies environments.
        names: what its arrays are called, if not by the names of this package or of D4RL.

    Raises:
        UserError: if it cannot be read, or does not hold transitions.
    """
    arrays: dict[str, np.ndarray] = {}

    def keep(name: str, part: Any) -> None:  # visititems follows no link that leads elsewhere, and none in a circle
        if isinstance(part, h5py.Dataset):
            if part.external or part.is_virtual:
                raise UserError(f"{file}: {name} lies in another file: copy it into this one")
            arrays[name] = part[()] if part.shape else np.asarray(0)  # single values are about the file

    try:
        require_file(file)
        with h5py.File(file, "r") as stored:
            stored.visititems(keep)
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"{file} cannot be read: its arrays do not fit into memory") from None
    except PermissionError as fault:
        raise UserError(f"{file} cannot be read: {first_line(fault)}") from None
    except Exception as fault:  # h5py raises many kinds for a damaged file
        raise unreadable(file, ".hdf5", first_line(fault)) from None
    if any(name.startswith("episode_0/") for name in arrays):
        raise UserError(f"{file} has episodes as Minari stores them: name the folder of the data set")
    return log_of_arrays(str(file), arrays, group, names)
