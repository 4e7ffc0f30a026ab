"""pyro-dynamics compare: draw the learning curves of several runs side by side."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_dynamics.diagnostics.figures import draw_comparison
from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments import RunFolder
from pyro_dynamics.experiments.files import make_room, write_bytes
from pyro_dynamics.experiments.logged_family import FILE
from pyro_dynamics.runners.configuration import from_json
from pyro_dynamics.runners.main import run_as_module


@dataclass(frozen=True)
class CompareFlags:
    """Draw the mean return by round of several runs of one family, grouped by agent, and print the means."""

    dirs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    out: Path = Path("comparison.png")
    """The picture to write."""
    since: int = 1
    """First round of the means that are printed."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = tyro.cli(CompareFlags, prog="pyro-dynamics compare", args=arguments)
    if not flags.dirs:
        raise UserError("name at least one run folder to compare")
    curves: dict[str, list[list[float]]] = defaultdict(list)
    families = set()
    for path in flags.dirs:
        folder = RunFolder.open(path)
        config = from_json(folder.config)
        families.add(config.family)
        if (path / FILE).is_file():
            raise UserError(f"{path} was fitted to logged data, and has no rounds to compare: diagnose it")
        curves[config.agent].append(mean_returns(folder))
    if len(families) > 1:
        raise UserError(f"runs of different families cannot be compared: {', '.join(sorted(families))}")
    make_room(flags.out)
    write_bytes(flags.out, draw_comparison(curves, families.pop()))
    print(f"{'agent':<14}{'runs':>5}  mean return, rounds {flags.since} to the last, of each run")
    for name, runs in curves.items():
        later = [run[flags.since :] for run in runs]
        print(f"{name:<14}{len(runs):>5}  " + "  ".join(f"{sum(run) / len(run):.1f}" for run in later if run))
    print(f"picture: {flags.out}")


def mean_returns(folder: RunFolder) -> list[float]:
    """Mean return over environments in each round.

    Raises:
        UserError: if the run has no whole round yet, or one without returns.
    """
    rounds: dict[int, list[float]] = defaultdict(list)
    for row in folder.metrics():
        if row["return"] is None:
            raise UserError(f"{folder.path} has no returns in round {row['round']}: there is nothing to compare")
        rounds[row["round"]].append(row["return"])
    if not rounds:
        raise UserError(f"{folder.path} has no whole round yet")
    return [sum(returns) / len(returns) for _, returns in sorted(rounds.items())]


if __name__ == "__main__":
    run_as_module("compare")
