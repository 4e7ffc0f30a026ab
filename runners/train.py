"""pyro-dynamics train: learn one dynamics model over several environments at once."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from pyro_dynamics.control import describe_precision
from pyro_dynamics.diagnostics.context_text import label
from pyro_dynamics.diagnostics.figures import draw_training
from pyro_dynamics.environments import FAMILIES, Family, find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.experiments import RunFolder, Team, check_task, learn
from pyro_dynamics.experiments.files import write_bytes
from pyro_dynamics.experiments.lock import lock_folder
from pyro_dynamics.experiments.logged_family import FILE
from pyro_dynamics.experiments.progress import Progress
from pyro_dynamics.experiments.tensorboard import TensorBoard, summary_writer
from pyro_dynamics.runners.assembly import build_team, set_threads
from pyro_dynamics.runners.configuration import (
    Preset,
    RunConfig,
    flag_values,
    from_json,
    online_for,
    preset_config,
    to_json,
    with_choices,
)
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.transitions import Transitions

OWN_FAMILY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""package.module:callable"""


@dataclass(frozen=True)
class TrainFlags:
    """Learn one dynamics model over several environments at once (Algorithm 1), and keep the run in a folder.

    `pyro-dynamics train` alone takes the pendulum under five gravities. Flags that are not given take the values of
    the preset, shown as their defaults below: `train halfcheetah-tilt --preset cpu --help` tells that preset's.
    """

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run; by default runs/FAMILY-AGENT-PRESET-SEED."""
    resume: Path | None = None
    """Go on with the run in this folder after its last whole round; only --rounds may be given with it."""
    tensorboard: bool = False
    """Write the metrics of each round to DIR/tensorboard too."""
    threads: int = 1
    """Processor threads. More than one is slower where another process is busy, and changes the last digits."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = parse(arguments)
    set_threads(flags.threads)
    config, family = flags.run, find_family(flags.run.family)

    if flags.tensorboard:
        summary_writer()  # told before there is a folder, if it is missing
    robots = family.make_vector(family.train * config.episodes, config.steps)
    team = build_team(config, family, robots.single_action_space)
    if flags.resume is None:
        warn_of_task(config, family, team)
        RunFolder.require_free(folder_path(flags, family.name))
    with lock_folder(folder_path(flags, family.name)):  # only now: settings that make no sense have been refused
        folder = open_folder(flags, family.name)
        data = folder.transitions()
        if data:
            team.load_state_dict(folder.checkpoint())
        board = TensorBoard(folder.path / "tensorboard", len(data)) if flags.tensorboard else None
        print(describe_precision(config.precision))
        progress = Progress(family.train, config.rounds, config.steps, done=len(data))

        def save(m: int, transitions: Transitions, rows: list[dict[str, Any]]) -> None:
            folder.save_round(m, transitions, rows, team.state_dict(), config.keep)
            if board is not None:
                board.round(m, rows, progress.elbo)

        learn(
            team,
            robots,
            family.train,
            data,
            rounds=config.rounds,
            seed=config.seed,
            update_while_training=config.update_while_training,
            on_round=save,
            progress=progress,
        )
        progress.bar.close()
        if board is not None:
            board.close()
        robots.close()
        write_bytes(folder.path / "training.png", draw_training(folder.metrics(), family.axis))
        print_returns(folder, family)


def warn_of_task(config: RunConfig, family: Family, team: Team) -> None:
    """Check the task on robots of their own, and say where it is not what the environment does."""
    robots = family.make_vector(family.train, config.steps)
    for warning in check_task(team.agents[0].task, robots, config.seed):
        print(f"warning: {warning}", file=sys.stderr)
    robots.close()


def parse(arguments: Sequence[str]) -> TrainFlags:
    """The flags; those that are not given come from the run to resume, or from the preset.

    Raises:
        UserError: if the family is not registered, or a resumed run was to be changed.
    """
    defaults = guess_defaults(arguments)
    flags = tyro.cli(TrainFlags, prog="pyro-dynamics train", args=arguments, default=TrainFlags(run=defaults))
    if flags.resume is not None:
        if replace(flags.run, rounds=defaults.rounds) != defaults or flags.out is not None:
            raise UserError("--resume goes on with the settings of its run: give it no other flags than --rounds")
        return flags
    find_family(flags.run.family)  # one that is not there is refused in words
    chosen = flags.run.family, flags.run.preset
    if chosen != (defaults.family, defaults.preset):  # the guess was wrong: read again from the right defaults
        defaults = defaults_of(*chosen, arguments)
        flags = tyro.cli(TrainFlags, prog="pyro-dynamics train", args=arguments, default=TrainFlags(run=defaults))
    return flags


def guess_defaults(arguments: Sequence[str]) -> RunConfig:
    """Where the flags start from, looked up before they are read, so that --help shows the right defaults."""
    values = flag_values(arguments)
    if "--resume" in values:
        folder = RunFolder.open(Path(values["--resume"]))
        if (folder.path / FILE).is_file():
            raise UserError(f"{folder.path} was fitted to logged data, and has no rounds to go on with: fit again")
        return from_json(folder.config)
    family = next((word for word in arguments if word in FAMILIES or OWN_FAMILY.fullmatch(word)), "pendulum-gravity")
    preset = values.get("--preset", "quick")
    return defaults_of(family, preset if preset in get_args(Preset) else "quick", arguments)  # type: ignore[arg-type]


def defaults_of(family: str, preset: Preset, arguments: Sequence[str]) -> RunConfig:
    """The preset, with the guide, belief, update and planner that the arguments name."""
    config = with_choices(preset_config(family, preset), arguments)
    online = online_for(config.guide, config.online)
    return replace(config, online=with_choices(online, arguments))


def folder_path(flags: TrainFlags, family: str) -> Path:
    """Where the run is, or will be."""
    config = flags.run
    return flags.resume or flags.out or Path("runs") / f"{family}-{config.agent}-{config.preset}-{config.seed}"


def open_folder(flags: TrainFlags, family: str) -> RunFolder:
    """The folder of a new run, or of the run to resume."""
    config = flags.run
    if flags.resume is None:
        return RunFolder.create(folder_path(flags, family), to_json(config))
    folder = RunFolder.open(flags.resume)
    if (folder.last_round or 0) > config.rounds:
        raise UserError(f"{folder.path} has {folder.last_round} rounds already, more than --rounds {config.rounds}")
    folder.save_config(to_json(config))
    return folder


def print_returns(folder: RunFolder, family: Family) -> None:
    """The table at the end: the return of each environment at random, in the last round, and at best."""
    rows = folder.metrics()
    last = rows[-1]["round"]
    width = max(21, len(family.axis) + 2)
    print(f"\n{family.axis:<{width}}" + f"{'random':>10}{f'round {last}':>12}{'best':>10}")
    for k, context in enumerate(family.train):
        returns = [row["return"] for row in rows if row["environment"] == k]
        print(f"{label(context):<{width}}{returns[0]:>10.1f}{returns[-1]:>12.1f}{max(returns):>10.1f}")
    mean = sum(row["return"] for row in rows if row["round"] == last) / len(family.train)
    print(f"{'mean':<{width}}{'':>10}{mean:>12.1f}\n\nrun: {folder.path}\npicture: {folder.path / 'training.png'}")
    if any(row["latent_mean"] for row in rows):
        print(f"next: pyro-dynamics adapt {folder.path} --context {label(family.test_contexts[-1])}")


if __name__ == "__main__":
    run_as_module("train")
