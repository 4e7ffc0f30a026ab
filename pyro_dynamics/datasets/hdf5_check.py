"""Untrusted HDF5 files, checked before anything is read from them."""

from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import FREE, TIMES, require_file

DEPTH = 100
"""Groups within groups."""


def require_plain_hdf5(path: Path) -> None:
    """Refuse a file that leads to other files, or whose arrays claim far more than it can hold.

    Raises:
        OSError: if it is no HDF5 file.
        ValueError: naming what is wrong with it.
    """
    import h5py  # comes with what writes netCDF

    size = require_file(path)
    try:
        with h5py.File(path, "r") as file:
            claimed = _claimed(h5py, file, DEPTH)
    except (OSError, ValueError):
        raise
    except Exception as fault:  # h5py raises many kinds for a damaged file
        raise ValueError(str(fault) or type(fault).__name__) from None
    if claimed > max(FREE, TIMES * size):
        raise ValueError(f"{path.name} claims {claimed / 2**30:.1f} GiB, far more than such a file can hold")


def _claimed(h5py: Any, group: Any, depth: int) -> int:
    """Bytes of all arrays in a group."""
    if not depth:
        raise ValueError(f"its groups are nested more than {DEPTH} deep")
    total = 0
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{group.name}/{name} is a link to somewhere else")
        entry = group[name]
        if isinstance(entry, h5py.Group):
            total += _claimed(h5py, entry, depth - 1)
        elif isinstance(entry, h5py.Dataset):
            if entry.external or entry.is_virtual:
                raise ValueError(f"{entry.name} takes its values from another file")
            total += entry.nbytes
    return total
