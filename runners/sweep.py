"""pyro-dynamics sweep: train many runs at once with Ray."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from pyro_dynamics.environments import find_family
from pyro_dynamics.environments.checked_env import require_step_limit
from pyro_dynamics.errors import UserError, last_line
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.io.files import make_folder, write_bytes
from pyro_dynamics.io.tables import decimal, text_table
from pyro_dynamics.runners.common.configuration import Preset, flag_values, preset_config
from pyro_dynamics.runners.common.factory import action_space, build_group
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.common.sweep_grid import grid_points, train_flags
from pyro_dynamics.runners.common.sweep_jobs import Job, is_finished, make_job, warn_of_changed, work
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.sweeps.on_ray import connected, import_ray, run_jobs
from pyro_dynamics.sweeps.sweep_folder import SweepFolder

AgentName = Literal["latent", "generalist", "specialist", "oracle", "last-layer"]


@dataclass(frozen=True)
class SweepFlags:
    """Train every agent, guide and seed on every family, each run as one job on Ray, skipping finished ones.

    Needs `pip install "pyro-dynamics[sweep]"`. What follows -- goes to every job as flags of `pyro-dynamics train`:

    pyro-dynamics sweep pendulum-gravity --agents latent generalist --seeds 0 1 2 -- --offline.min-steps 2000

    --grid gives any of these several values, and every combination is trained:

    pyro-dynamics sweep pendulum-gravity --grid offline.learning-rate=1e-3,5e-3 latent-dim=1,2 --seeds 0 1 2

    Runs are in DIR/FAMILY/AGENT-SEED, or DIR/FAMILY/AGENT-GUIDE-SEED where the guide is not the preset's, with the
    values of the grid before the seed (latent-offline.learning-rate=1e-3-latent-dim=1-0); what a job prints is in
    DIR/logs, the table of jobs in DIR/sweep.json. A job whose worker dies resumes after its last complete round. Stop
    the command at any time: the same command resumes with what is missing.
    """

    families: tyro.conf.Positional[tuple[str, ...]] = ("pendulum-gravity",)
    """Families of environments, as for train."""
    agents: tuple[AgentName, ...] = ("latent",)
    """Kinds of agents."""
    guides: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar=f"[{GUIDES.choices} ...]")] = None
    """Families of posteriors, that of the preset by default; only the latent agent has one, so the other agents are
    trained once."""
    seeds: tuple[int, ...] = (0,)
    """Seeds."""
    grid: Annotated[
        tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="[NAME=VALUE,VALUE ...]")
    ] = ()
    """Flags of train with several values each, of which every combination is trained. The values of a flag that takes
    several at once have spaces between them ('ensemble.hidden=64 64,128 128'); a flag without a value has true and
    false (calibrate=true,false)."""
    preset: Preset = "quick"
    """Where the other flags' defaults come from."""
    rounds: int | None = None
    """Rounds of every job; those of the preset by default."""
    steps: int | None = None
    """Steps of an episode; those of the preset by default."""
    out: Path = Path("runs/sweep")
    """Folder of the sweep. On a cluster it must lie on a file system that all machines share."""
    workers: int | None = None
    """Jobs at a time on this machine, each with one processor core; as many as there are cores by default."""
    address: str | None = None
    """Address of a Ray cluster (HOST:PORT, or auto) to run on, in place of this machine."""
    step_limit: float | None = None
    """Seconds that one step or reset of an environment may take; then it is dropped like one that raises. No limit by
    default, and no setting of the runs: it may differ when the command resumes."""
    retries: int = 3
    """How often a job is restarted after its worker died. A job that ends in an error is not."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 if a job failed."""
    own, for_train = split(arguments)
    flags = parse(own)
    jobs = make_jobs(flags, for_train)
    refuse_what_cannot_be_built(jobs)
    import_ray()  # an error if it is missing, before there is a folder
    with SweepFolder.claimed(flags.out) as folder:
        states = {job.name: "finished" if is_finished(job, folder) else "unfinished" for job in jobs}
        for job in jobs:
            if states[job.name] == "finished":
                warn_of_changed(job, folder)
        try:
            for name, failure in run_missing(flags, jobs, states, folder):
                states[name] = "failed" if failure else "finished"
        finally:
            rows = [job.row(folder, states[job.name]) for job in jobs]
            folder.save(rows)
        print_table(rows, folder)
    return int("failed" in states.values())


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own flags, and those after ``--``."""
    arguments = list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def parse(arguments: Sequence[str]) -> SweepFlags:
    """The flags.

    Raises:
        UserError: if they make no sense.
    """
    flags = read_flags(SweepFlags, "sweep", arguments)
    for name in ("families", "agents", "guides", "seeds"):
        if getattr(flags, name) == ():
            raise UserError(f"name at least one of the {name}")
    for guide in flags.guides or ():
        GUIDES.find(guide)
    if flags.workers is not None and flags.address is not None:
        raise UserError("--workers is for this machine: a cluster's cores are its own, so leave it out with --address")
    if flags.workers is not None and flags.workers < 1:
        raise UserError(f"--workers must be at least 1, not {flags.workers}")
    require_step_limit(flags.step_limit)
    if flags.retries < 0:
        raise UserError(f"--retries must not be negative: {flags.retries}")
    return flags


def make_jobs(flags: SweepFlags, for_train: Sequence[str]) -> list[Job]:
    """The jobs, each with the configuration that ``pyro-dynamics train`` would have of the same flags.

    Raises:
        UserError: if a setting makes no sense.
    """
    shared = [f"--preset={flags.preset}"]
    shared += [f"--{name}={getattr(flags, name)}" for name in ("rounds", "steps") if getattr(flags, name) is not None]
    points = grid_points(flags.grid)
    given = {word.removeprefix("--") for word in flag_values([*shared, *for_train])}
    if twice := sorted(given & set(points[0])):
        raise UserError(f"--grid gives the values of {twice[0]}: leave --{twice[0]} out")
    jobs: dict[str, Job] = {}
    for family, point, seed, agent in product(flags.families, points, flags.seeds, flags.agents):
        default = preset_config(family, flags.preset).guide
        for guide in dict.fromkeys((flags.guides if agent == "latent" else None) or (default,)):
            wanted = {"family": family, "agent": agent, "guide": guide, "seed": seed, "preset": flags.preset}
            chosen = ["--agent", agent, "--guide", guide, "--seed", str(seed)]
            parsed = train_flags([family, *chosen, *shared, *for_train], point)
            job = make_job(wanted, parsed, flags.step_limit, point)
            if jobs.setdefault(job.name, job) != job:
                raise UserError(f"two families have the same name, and would share the folder {job.name}")
    return list(jobs.values())


def refuse_what_cannot_be_built(jobs: Sequence[Job]) -> None:
    """Build the agents of every configuration once, so that inconsistent settings are refused at once."""
    for config in dict.fromkeys(replace(job.config, seed=0) for job in jobs):
        family = find_family(config.family)
        build_group(config, family, action_space(family, config.steps))


def run_missing(
    flags: SweepFlags, jobs: Sequence[Job], states: dict[str, str], folder: SweepFolder
) -> Iterator[tuple[str, str]]:
    """Run the unfinished jobs, and report on them; gives each name and its failure, or "", as it ends.

    Raises:
        UserError: if a worker does not see the folder.
    """
    missing = {job.name: job for job in jobs if states[job.name] != "finished"}
    if not missing:
        return
    tries = dict.fromkeys(missing, 1)
    with (
        connected(flags.workers, flags.address) as ray,
        tqdm(total=len(jobs), initial=len(jobs) - len(missing), unit="job", dynamic_ncols=True) as bar,
    ):
        arguments = {name: (folder, job) for name, job in missing.items()}
        for ended in run_jobs(ray, work, arguments, flags.retries):
            for name in missing:
                for again in folder.tries(name)[tries[name] :]:
                    tries[name] += 1
                    bar.write(f"{name}: its worker died; restarted on {again.host}, {start_of(again.after_round)}")
            if ended is not None:
                name, failure = ended
                if isinstance(failure, UserError):
                    raise UserError(str(failure.cause))  # type: ignore[attr-defined]
                bar.write(f"{name}: {record_end(missing.pop(name), str(failure), folder)}")
                bar.update()
                yield name, str(failure)


def start_of(last_round: int | None) -> str:
    """Where a job starts, as text."""
    return "from the beginning" if last_round is None else f"after round {last_round}"


def record_end(job: Job, failure: str, folder: SweepFolder) -> str:
    """How a job ended, in one line; its traceback goes to a file."""
    file = folder.failure(job.name)
    if failure:
        make_folder(file.parent)
        write_bytes(file, failure.encode())
        return f"failed: {last_line(failure)} (traceback: {file})"
    file.unlink(missing_ok=True)
    row = job.row(folder, "finished")
    return f"finished, mean return {decimal(row['mean_return'])} in round {row['rounds']}"


def print_table(rows: Sequence[dict[str, Any]], folder: SweepFolder) -> None:
    """The jobs, their returns and their places."""
    grid = list(rows[0]["grid"])
    titles = ("family", "agent", "guide", *grid, "seed", "rounds", "mean return", "tries", "folder")
    lines = []
    for row in rows:
        mean = "-" if row["mean_return"] is None else f"{decimal(row['mean_return'])}"
        place = str(folder.run(row["folder"])) + ("" if row["state"] == "finished" else f" ({row['state']})")
        numbers = (row["seed"], "-" if row["rounds"] is None else row["rounds"], mean, row["tries"])
        chosen = (row["family"], row["agent"], row["guide"] or "-", *row["grid"].values())
        lines.append((*chosen, *map(str, numbers), place))
    print(f"\n{text_table(titles, lines, words=3 + len(grid))}\n\ntable: {folder.path / 'sweep.json'}")


if __name__ == "__main__":
    run_as_module("sweep")
