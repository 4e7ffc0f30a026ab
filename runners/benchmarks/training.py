"""pyro-dynamics benchmark training: train over seeds, and record the metrics of every run."""

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyro_dynamics.benchmarks import training
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.runners import train
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common import training_run
from pyro_dynamics.runners.common.configuration import RunConfig


@dataclass(frozen=True)
class TrainingFlags(RecordFlags):
    """Train over seeds, and record the metrics of every run and the CPU time that its training took.

    A run that was stopped is resumed, without its CPU time; one that is whole is kept.

    For example: pyro-dynamics benchmark training --commands "train halfcheetah-tilt --preset cpu" --seeds 5
    """

    commands: tuple[str, ...] = ("train",)
    """Each one as a single word, without --seed and --out."""
    seeds: int = 3
    """Trainings by each command."""
    runs: Path = Path("runs/training")
    """Folder of the runs."""
    by: Literal["round", "context"] = "round"
    """The columns: of rounds, with the mean return over contexts, or of contexts, with the mean over rounds."""
    since: int | None = None
    """With --by context: the first round that counts. By default the last one alone does."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds")
        if self.since is not None and (self.by == "round" or self.since < 0):
            raise UserError("--since is a round from 0 on, and is for --by context")


Flags = TrainingFlags


def measure_rows(flags: TrainingFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    jobs = [
        (f"{command} --seed {seed}", flags.runs / f"{number}-{seed}")
        for number, command in enumerate(flags.commands)
        for seed in range(flags.seeds)
    ]
    configs = [config_of(command) for command, _ in jobs]  # all of them before the work
    rows = []
    for (command, path), config in zip(jobs, configs, strict=True):
        begun = (path / "config.json").is_file()
        before = time.process_time()
        folder = training_run.train_run(config, path, resume=None)
        seconds = None if begun else time.process_time() - before
        rows.append({"command": command, "family": config.family, "cpu_s": seconds, "metrics": folder.metrics()})
    return {"by": flags.by, "since": flags.since}, rows


def config_of(command: str) -> RunConfig:
    """What such a command trains.

    Raises:
        UserError: if it is none, or has flags that are no settings of a run.
    """
    words = shlex.split(command)
    if words[:1] != ["train"]:
        raise UserError(f"--commands {command!r}: each begins with `train`, as in --commands 'train --rounds 1'")
    flags = train.parse(words[1:])
    if flags != train.TrainFlags(run=flags.run):
        raise UserError(
            f"--commands {command!r}: give settings of a run alone; --runs and --threads are of the benchmark"
        )
    return flags.run


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    if recording.settings["by"] == "round":
        return training.by_round(recording.rows)
    return training.by_context(recording.rows, recording.settings["since"])
