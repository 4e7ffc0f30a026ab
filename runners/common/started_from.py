"""A training that starts from the transitions of another run, and whether a run that is there did so."""

from pathlib import Path

import numpy as np

from pyro_dynamics.datasets.logged_start import logged_start
from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.common.configuration import from_json
from pyro_dynamics.runners.common.factory import family_of
from pyro_dynamics.transitions import Transitions


def read_start(path: Path, family: Family) -> Transitions:
    """The transitions of another run as round 0 of a training, as ``logged_start`` has them.

    Raises:
        UserError: if it is none, or they do not go with the family.
    """
    other = RunFolder.open(path)
    other.checkpoint()  # which refuses transitions of yet another run
    return logged_start(other, family_of(other, from_json(other.config)), family)


def require_begun(folder: RunFolder, family: Family, start_from: Path | None) -> None:
    """Refuse to take a run that began with other transitions for one that began with those of ``start_from``.

    Raises:
        UserError: saying so.
    """
    rows = folder.metrics()
    if not rows:
        return
    start = None if start_from is None else read_start(start_from, family).arrays()
    logged = rows[0]["policy"] == "logged"
    there = folder.transitions()[0].arrays()
    if logged != (start is not None) or (
        start is not None and any(not np.array_equal(there[name], start[name]) for name in start)
    ):
        raise UserError(f"{folder.path} holds a run that began with other transitions: choose another --out")
