"""pyro-dynamics train: learn one dynamics model over several environments at once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from pyro_dynamics.datasets.logged_family import FILE
from pyro_dynamics.environments import FAMILIES, Family, find_family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.example_schedule import example_schedule, in_words
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.plots.formats import FigureFormat
from pyro_dynamics.processor import set_threads
from pyro_dynamics.rollouts.trackers.contract import TrackerName
from pyro_dynamics.runners.common.configuration import (
    CHOICES,
    Preset,
    RunConfig,
    flag_values,
    from_json,
    online_for,
    preset_config,
    require_pair,
    require_sizes,
    with_choices,
)
from pyro_dynamics.runners.common.drawn_episodes import require_drawable
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.training_run import train_run, write_training_figure
from pyro_dynamics.runners.main import run_as_module

OWN_FAMILY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""package.module:callable"""


@dataclass(frozen=True)
class TrainFlags:
    """Learn one dynamics model over several environments at once (Algorithm 1), and keep the run in a folder.

    `pyro-dynamics train` alone takes the pendulum under five gravities. Flags that are not given take the values of
    the preset, shown as their defaults below: `train halfcheetah-tilt --preset cpu --help` shows that preset's.
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run; by default runs/FAMILY-AGENT-PRESET-SEED."""
    resume: Path | None = None
    """Resume the run in this folder after its last whole round; only --rounds may be given with it."""
    start_from: Path | None = None
    """Begin with the transitions of another run, as a rule one of `fit`, in the place of round 0, which acts at random;
    its environments must be those that the family trains on."""
    tracker: TrackerName = "none"
    """Where the metrics of each round are written beside the run's folder: tensorboard (DIR/tensorboard), wandb or
    trackio (the project pyro-dynamics, where these keep theirs)."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; then it is left out as one that raises. No limit by
    default."""
    figure_format: FigureFormat = "png"
    """Of the figure; pdf and svg, for print, are written beside the PNG."""
    threads: int = 1
    """CPU threads. More than one is slower where another process is busy, and changes the last digits."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    path = flags.resume or flags.out or Path("runs") / default_name(flags.run, flags.start_from)
    try:
        folder = train_run(
            flags.run,
            path,
            resume=flags.resume is not None,
            start_from=flags.start_from,
            tracker=flags.tracker,
            step_limit=flags.step_limit,
        )
    except KeyboardInterrupt:
        if not (path / "config.json").is_file():
            raise
        raise KeyboardInterrupt(f"pyro-dynamics train --resume {path} continues after its last whole round") from None
    if flags.figure_format != "png":
        write_training_figure(folder, find_family(flags.run.family), flags.figure_format)
    print_returns(folder, find_family(flags.run.family))


def parse(arguments: Sequence[str]) -> TrainFlags:
    """The flags; those that are not given come from the run to resume, or from the preset.

    Raises:
        UserError: if the family is not registered, or a resumed run was to be changed.
    """
    defaults = guess_defaults(arguments)
    flags = read_flags(TrainFlags, "train", arguments, TrainFlags(run=defaults))
    if flags.resume is not None:
        changed = replace(flags.run, rounds=defaults.rounds) != defaults
        if changed or flags.out is not None or flags.start_from is not None:
            raise UserError("--resume keeps the settings of its run: give it no other flags than --rounds")
        return flags
    find_family(flags.run.family)  # one that is not there is refused in words
    chosen = flags.run.family, flags.run.preset
    if chosen != (defaults.family, defaults.preset):  # the guess was wrong: read again from the right defaults
        defaults = defaults_of(*chosen, arguments)
        flags = read_flags(TrainFlags, "train", arguments, TrainFlags(run=defaults))
    require_sizes(flags.run)
    require_pair(flags.run)
    require_drawable(flags.run)
    return flags


def guess_defaults(arguments: Sequence[str]) -> RunConfig:
    """Where the flags start from, looked up before they are read, so that --help shows the right defaults."""
    values = flag_values(arguments)
    if "--resume" in values:
        folder = RunFolder.open(Path(values["--resume"]))
        if (folder.path / FILE).is_file():
            raise UserError(f"{folder.path} was fitted to logged data, and has no rounds to resume: fit again")
        return from_json(folder.config)
    family = next(filter(is_family, positional(arguments)), "pendulum-gravity")
    preset = values.get("--preset", "quick")
    return defaults_of(family, preset if preset in get_args(Preset) else "quick", arguments)  # type: ignore[arg-type]


def is_family(word: str) -> bool:
    """Whether a word names a family, or may name one of the user's own."""
    return word in FAMILIES or OWN_FAMILY.fullmatch(word) is not None


def positional(arguments: Sequence[str]) -> list[str]:
    """The arguments without those that name a guide, belief, update or planner: ``module:Class`` is no family there."""
    flags = {f"--{name}" for name in CHOICES}
    return [word for before, word in pairwise(["", *arguments]) if before not in flags]


def defaults_of(family: str, preset: Preset, arguments: Sequence[str]) -> RunConfig:
    """The preset, with the guide, belief, update and planner that the arguments name."""
    config = with_choices(preset_config(family, preset), arguments)
    online = online_for(config.guide, config.online)
    return replace(config, online=with_choices(online, arguments))


def default_name(config: RunConfig, start_from: Path | None = None) -> str:
    """The name of a run's folder where none is given."""
    name = f"{find_family(config.family).name}-{config.agent}-{config.preset}-{config.seed}"
    return name if start_from is None else f"{name}-from-{file_name(start_from.resolve().stem)}"


def print_returns(folder: RunFolder, family: Family) -> None:
    """The table at the end, by environment or by round, where the run is, and what to do with it."""
    rows = folder.metrics()
    if from_json(folder.config).episode_contexts != "fixed":
        print_rounds(rows, family)
    else:
        print_environments(rows, family)
    print(f"\nrun: {folder.path}\nfigure: {folder.path / 'training.png'}")
    if any(row["latent_mean"] for row in rows):
        schedule = example_schedule(family, from_json(folder.config).steps)
        print(f"next: pyro-dynamics adapt {folder.path}\n      ({in_words(schedule, family)})")


def print_rounds(rows: Sequence[dict[str, Any]], family: Family) -> None:
    """The returns of each round, whose episodes have had contexts of their own."""
    last = rows[-1]["round"]
    print(f"\n{'round':<8}{'episodes':>8}{'mean return':>14}{'least':>10}{'greatest':>10}   contexts: {family.axis}")
    for m in range(last + 1):
        returns = [row["return"] for row in rows if row["round"] == m]
        mean = sum(returns) / len(returns)
        note = "   at random" if m == 0 else ""
        print(f"{m:<8}{len(returns):>8}{decimal(mean):>14}{decimal(min(returns)):>10}{decimal(max(returns)):>10}{note}")


def print_environments(rows: Sequence[dict[str, Any]], family: Family) -> None:
    """The return of each environment at random, in the last round, and at best."""
    last = rows[-1]["round"]
    width = max(21, len(family.axis) + 2)
    print(f"\n{family.axis:<{width}}" + f"{rows[0]['policy']:>10}{f'round {last}':>12}{'best':>10}")
    for k, context in enumerate(family.train):
        returns = [row["return"] for row in rows if row["environment"] == k]
        print(
            f"{label(context):<{width}}{decimal(returns[0]):>10}{decimal(returns[-1]):>12}{decimal(max(returns)):>10}"
        )
    mean = sum(row["return"] for row in rows if row["round"] == last) / len(family.train)
    print(f"{'mean':<{width}}{'':>10}{decimal(mean):>12}")


if __name__ == "__main__":
    run_as_module("train")
