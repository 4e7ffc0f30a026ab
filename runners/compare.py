"""pyro-dynamics compare: plot the learning curves of several runs."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import tyro

from pyro_dynamics.datasets.logged_family import FILE
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.files import ensure_parent, write_bytes
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.rollouts.environment_record import EnvironmentRecord
from pyro_dynamics.runners.common.configuration import CHOICES, RunConfig, from_json
from pyro_dynamics.runners.common.factory import family_of
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module


@dataclass(frozen=True)
class CompareFlags:
    """Plot the mean return by round of several runs of one family, and print the means.

    Runs are grouped by their agent and by what differs among them: guide, belief, update, planner, the settings of
    these, and those of networks, training and controller. Runs of one group should differ in their seeds only.
    """

    dirs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    out: Path = Path("comparison.png")
    """The figure to write; its ending says whether as .png, .pdf or .svg."""
    since: int = 1
    """First round of the means that are printed."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(CompareFlags, "compare", arguments)
    if not flags.dirs:
        raise UserError("name at least one run folder to compare")
    ending: Any = flags.out.suffix.lstrip(".") or "png"
    if ending not in get_args(FigureFormat):
        raise UserError(f"--out {flags.out}: a figure ends in .{', .'.join(get_args(FigureFormat))}")
    folders: list[RunFolder] = []
    configs: list[RunConfig] = []
    returns: list[list[float]] = []
    for path in flags.dirs:
        folder = RunFolder.open(path)
        folders.append(folder)
        configs.append(from_json(folder.config))
        if (path / FILE).is_file():
            raise UserError(f"{path} was fitted to logged data, and has no rounds to compare: diagnose it")
        returns.append(mean_returns(folder))
    last = max(map(len, returns)) - 1
    if not 0 <= flags.since <= last:
        raise UserError(f"--since must be a round from 0 to {last}, the last, not {flags.since}")
    families = {config.family for config in configs}
    if len(families) > 1:
        raise UserError(f"runs of different families cannot be compared: {', '.join(sorted(families))}")
    for folder, config in zip(folders, configs, strict=True):
        family_of(folder, config)
        folder.checkpoint()  # refuses a run whose parts are of several
    refuse_twice(folders)
    warn_of_others(folders)
    curves: dict[str, list[list[float]]] = defaultdict(list)
    for name, run in zip(names(configs), returns, strict=True):
        curves[name].append(run)
    ensure_parent(flags.out)
    from pyro_dynamics.plots.figures import draw_comparison  # here, as matplotlib takes long

    drawn = draw_comparison(curves, families.pop())
    write_bytes(flags.out, drawn.rendered(ending))
    width = max(14, *(len(name) + 2 for name in curves))
    print(f"{'agent':<{width}}{'runs':>5}  mean return, rounds {flags.since} to the last, of each run")
    for name, runs in curves.items():
        later = [run[flags.since :] for run in runs]
        print(f"{name:<{width}}{len(runs):>5}  " + "  ".join(decimal(sum(run) / len(run)) for run in later if run))
    print(f"figure: {flags.out}")


def refuse_twice(folders: Sequence[RunFolder]) -> None:
    """Raises :class:`UserError` where two folders hold the same run, as a copy or a zip does: it would count twice."""
    runs = [(folder.metrics(), from_json(folder.config)) for folder in folders]
    for at, folder in enumerate(folders):
        first = runs.index(runs[at])
        if first < at:
            raise UserError(f"{folders[first].path} and {folder.path} are one run, to the last digit: name it once")


def warn_of_others(folders: Sequence[RunFolder]) -> None:
    """Print a warning for each run whose environment did otherwise than that of the first: one may have been edited."""
    records = [(folder.path, record) for folder in folders if (record := EnvironmentRecord.load(folder.path))]
    for path, record in records[1:]:
        first, kept = records[0]
        if words := record.differs_from(kept):
            print(f"warning: {path} was trained in another environment than {first}: {words}", file=sys.stderr)


def names(configs: Sequence[RunConfig]) -> list[str]:
    """The label of each run: its agent, and the choices and settings that differ among the runs that have them."""
    chosen = [choices(config) for config in configs]
    keys = dict.fromkeys(key for one in chosen for key in one)
    different = [key for key in keys if len({str(one[key]) for one in chosen if key in one}) > 1]
    found = []
    for config, one in zip(configs, chosen, strict=True):
        words = [str(one[key]) if key in CHOICES else f"{key}={one[key]}" for key in different if key in one]
        found.append(", ".join([config.agent, *words]))
    return found


NAMED: dict[str, tuple[str, ...]] = {"latent": tuple(CHOICES), "last-layer": ("belief", "planner")}
"""What an agent is made of, beside its networks."""


def choices(config: RunConfig) -> dict[str, Any]:
    """The guide, belief, update and planner of a run, as far as its agent has them, and all settings."""
    names = ("episode_contexts", "steps", "episodes", "calibrate", "update_while_training")
    found: dict[str, Any] = {name: getattr(config, name) for name in names}
    for name in NAMED.get(config.agent, ("planner",)):
        place = config if hasattr(config, name) else config.online
        found[name] = getattr(place, name)
        found |= {f"{name}.{key}": value for key, value in asdict(getattr(place, f"{name}_config")).items()}
    for name in ("ensemble", "offline", "controller"):
        found |= {f"{name}.{key}": value for key, value in asdict(getattr(config, name)).items()}
    return found | ({"latent_dim": config.latent_dim} if config.agent == "latent" else {})


def mean_returns(folder: RunFolder) -> list[float]:
    """Mean return over environments in each round.

    Raises:
        UserError: if the run has no whole round yet, or one without returns.
    """
    rounds: dict[int, list[float]] = defaultdict(list)
    rows = folder.metrics()
    if cut := sum(len(row.get("faults", ())) for row in rows):
        print(f"warning: {folder.path}: {cut} episodes were cut short where the environment broke", file=sys.stderr)
    for row in rows:
        if row["return"] is None:
            raise UserError(f"{folder.path} has no returns in round {row['round']}: there is nothing to compare")
        rounds[row["round"]].append(row["return"])
    if not rounds:
        raise UserError(f"{folder.path} has no whole round yet")
    return [sum(returns) / len(returns) for _, returns in sorted(rounds.items())]


if __name__ == "__main__":
    run_as_module("compare")
