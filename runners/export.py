"""pyro-dynamics export: write a run's transitions for other tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box

from pyro_dynamics.datasets.exporting import RunData, write_csv, write_npz
from pyro_dynamics.datasets.logged_family import LoggedFamily
from pyro_dynamics.datasets.minari_data import minari, write_minari
from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.runners.common.configuration import from_json
from pyro_dynamics.runners.common.factory import family_of
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module


@dataclass(frozen=True)
class ExportFlags:
    """Write all transitions of a run, of every round, for other tools, in one or several formats.

    They include the round, episode, step, environment and true hidden parameter of each transition.
    """

    dir: tyro.conf.Positional[Path]
    """Folder of a run."""
    minari: str | None = None
    """A Minari data set: its id (such as pendulum/gravity-v0, made below MINARI_DATASETS_PATH), or a folder that begins
    with ./ or / and ends in a name such as gravity-v0."""
    npz: Path | None = None
    """One .npz file, which `fit` reads."""
    csv: Path | None = None
    """A table, one line for each transition."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(ExportFlags, "export", arguments)
    if flags.minari is flags.npz is flags.csv is None:
        raise UserError("say what to write: --minari ID, --npz FILE or --csv FILE")
    if flags.npz is not None and flags.csv is not None and flags.npz.resolve() == flags.csv.resolve():
        raise UserError(f"--npz and --csv both name {flags.npz}: each needs a file of its own")
    if flags.minari is not None:
        minari()  # an error if it is missing, before anything is written
    folder = RunFolder.open(flags.dir)
    config = from_json(folder.config)
    family = family_of(folder, config)
    data = RunData.of(folder.transitions(), family)
    folder.checkpoint()  # refuses a run whose parts are of several
    count = f"{len(data.episode)} transitions, {data.episode.max() + 1} episodes"
    for path, write in ((flags.npz, write_npz), (flags.csv, write_csv)):
        if path is not None:
            write(ensure_parent(path), data)
            print(f"{path}: {count}")
    if flags.minari is not None:
        observations, actions, spec = spaces(family, config.steps)
        words = f"Transitions of a pyro-dynamics run: {family.description}, {family.axis}."
        where = write_minari(flags.minari, data.episodes(observations, actions), observations, actions, spec, words)
        print(f"{where}: {count}; in Python: minari.MinariDataset('{where / 'data'}')")


def spaces(family: Family, steps: int) -> tuple[Box, Box, EnvSpec | None]:
    """Spaces of observations and actions, and what Gymnasium needs to make the environment again, if anything."""
    simulator = family.simulator if isinstance(family, LoggedFamily) else family
    if simulator is None:
        assert isinstance(family, LoggedFamily)
        return Box(-np.inf, np.inf, (family.make_task().state_dim,), np.float32), family.actions, None
    env = simulator.make(simulator.train[0], steps)
    env.close()
    assert isinstance(env.observation_space, Box)
    assert isinstance(env.action_space, Box)
    # Gymnasium cannot recreate what wrappers have changed or a function has made.
    own = env.unwrapped
    same = isinstance(simulator.environment, str) and (env.observation_space, env.action_space) == (
        own.observation_space,
        own.action_space,
    )
    return env.observation_space, env.action_space, env.unwrapped.spec if same else None


if __name__ == "__main__":
    run_as_module("export")
