"""pyro-dynamics benchmark training: train over seeds, and record the metrics of every run."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks import training
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.runners import train
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common import training_run
from pyro_dynamics.runners.common.configuration import RunConfig


@dataclass(frozen=True)
class TrainingFlags(RecordFlags):
    """Train over seeds, and record every run's metrics, the CPU time that it took, and what this was spent on.

    A run that was stopped is resumed, without its CPU time; one that is whole is kept.

    For example: pyro-dynamics benchmark training --commands "train halfcheetah-tilt --preset cpu" --seeds 5
    """

    commands: tuple[str, ...] = ("train",)
    """Each one as a single word, without --seed and --out."""
    seeds: int = 3
    """Trainings by each command."""
    runs: Path = Path("runs/training")
    """Folder of the runs."""
    by: Literal["round", "context", "command"] = "round"
    """The columns: of rounds, with the mean return over contexts, or of contexts, with the mean over rounds; or a line
    for each command, with the mean over its seeds."""
    since: int | None = None
    """With --by context: the first round that counts. By default the last one alone does."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds")
        if self.since is not None and (self.by != "context" or self.since < 0):
            raise UserError("--since is a round from 0 on, and is for --by context")


Flags = TrainingFlags
PARTS = {"act": "plans", "observe": "updates", "train": "training"}
"""What a round consists of, beside the simulator, the files and the rest."""


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
        with clocked(AgentGroup, PARTS) as parts:
            folder = training_run.train_run(config, path, resume=None)
        cost = {"cpu_s": None} if begun else {"cpu_s": time.process_time() - before, "parts_cpu_s": parts}
        rows.append({"command": command, "family": config.family, **cost, "metrics": folder.metrics()})
    return {"by": flags.by, "since": flags.since}, rows


@contextmanager
def clocked(kind: type, methods: Mapping[str, str]) -> Iterator[dict[str, float]]:
    """The CPU seconds spent meanwhile in methods of a class, none of which calls another, by the words for them."""
    spent = dict.fromkeys(methods.values(), 0.0)

    def clock(method: Callable[..., Any], words: str) -> Callable[..., Any]:
        @wraps(method)
        def run(*given: Any, **named: Any) -> Any:
            before = time.process_time()
            try:
                return method(*given, **named)
            finally:
                spent[words] += time.process_time() - before

        return run

    with ExitStack() as stack:
        for name, words in methods.items():
            stack.enter_context(patch.object(kind, name, clock(getattr(kind, name), words)))
        yield spent


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
    by = recording.settings["by"]
    if by != "context":
        return {"round": training.by_round, "command": training.by_command}[by](recording.rows)
    return training.by_context(recording.rows, recording.settings["since"])
