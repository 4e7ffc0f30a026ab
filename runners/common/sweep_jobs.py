"""The jobs of a sweep: their configurations, what a worker does, and their lines of the table."""

import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

from pyro_dynamics.environments import find_family
from pyro_dynamics.errors import UserError
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.processor import set_threads
from pyro_dynamics.runners import train
from pyro_dynamics.runners.common import training_run
from pyro_dynamics.runners.common.configuration import RunConfig, preset_config
from pyro_dynamics.runners.common.factory import environment_changes
from pyro_dynamics.runners.common.sweep_grid import in_names
from pyro_dynamics.runners.compare import mean_returns
from pyro_dynamics.sweeps.sweep_folder import SweepFolder


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    name: str
    """FAMILY/AGENT-SEED, with the guide and the point of the grid before the seed where there are any"""
    config: RunConfig
    step_limit: float | None = None
    """Seconds that a step of an environment may take; not in the configuration, by which runs are compared."""
    grid: Mapping[str, str] = field(default_factory=dict)
    """Its point of the grid: values by the names of flags."""

    def row(self, folder: SweepFolder, state: str) -> dict[str, Any]:
        """Its line of the table; its numbers are None before its first whole round."""
        path, config = folder.run(self.name), self.config
        run = RunFolder.open(path) if (path / "config.json").is_file() else None
        last = None if run is None else run.last_round
        return {
            "family": config.family,
            "agent": config.agent,
            "guide": self.guide,
            "seed": config.seed,
            "grid": dict(self.grid),
            "state": state,
            "rounds": last,
            "mean_return": None if run is None or last is None else mean_returns(run)[-1],
            "tries": len(folder.tries(self.name)),
            "folder": self.name,
        }

    def log_round(self, m: int) -> None:
        """Print a line to the log."""
        print(f"round {m} of {self.config.rounds} is saved")

    @property
    def guide(self) -> str | None:
        """Its guide, where the agent has one."""
        return self.config.guide if self.config.agent == "latent" else None


def make_job(
    wanted: dict[str, Any],
    flags: train.TrainFlags,
    step_limit: float | None = None,
    grid: Mapping[str, str] | None = None,
) -> Job:
    """The job of these flags.

    Raises:
        UserError: if a flag after ``--`` is not for jobs.
    """
    config = flags.run
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise UserError(f"the {name} is the sweep's to choose: name it before the --")
    if replace(flags, run=config) != train.TrainFlags(config):
        raise UserError(
            "--out, --resume, --tracker and --threads of train are not for the jobs of a sweep, and --step-limit "
            "stands before the --"
        )
    default = preset_config(config.family, config.preset).guide
    guide = "" if config.guide == default else f"-{file_name(config.guide)}"
    name = f"{find_family(config.family).name}/{config.agent}{guide}{in_names(grid or {})}-{config.seed}"
    return Job(name, config, step_limit, dict(grid or {}))


def is_finished(job: Job, folder: SweepFolder) -> bool:
    """Whether a job's run is complete.

    Raises:
        UserError: if its place holds a run with other settings.
    """
    run = training_run.part_there(job.config, folder.run(job.name))
    return run is not None and training_run.is_whole(run, job.config)


def warn_of_changed(job: Job, folder: SweepFolder) -> None:
    """Print a warning where the environment is not as it was when a finished job was trained."""
    path = folder.run(job.name)
    for words in environment_changes(RunFolder.open(path), job.config, find_family(job.config.family), job.step_limit):
        print(f"warning: {path}: {words}", file=sys.stderr)


def work(folder: SweepFolder, job: Job) -> str:
    """Do a job, or the rest of it, on a worker; gives the traceback where it fails, and "" where it does not.

    Raises:
        UserError: if the worker does not see the folder.
    """
    if not folder.is_seen():
        raise UserError(
            f"{socket.gethostname()} does not see {folder.path} as it is here: on a cluster --out must lie on a file "
            "system that all its machines share, at the same path"
        )
    set_threads(1)
    path = folder.run(job.name)
    run = training_run.part_there(job.config, path)
    folder.note_try(job.name, None if run is None else run.last_round)
    with folder.log(job.name) as log, redirect_stdout(log), redirect_stderr(log):
        try:
            training_run.train_or_resume(job.config, path, job.log_round, job.step_limit)
        except Exception:
            traceback.print_exc()
            return traceback.format_exc()
    return ""
