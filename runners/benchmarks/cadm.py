"""pyro-dynamics benchmark cadm: train and evaluate on CaDM's benchmark families over seeds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks import cadm
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.data_files import parse_json, read_text
from pyro_dynamics.errors import UserError
from pyro_dynamics.runners import evaluate, train
from pyro_dynamics.runners.benchmarks.common import RecordFlags

SMALL = "--preset cpu --rounds 5 --episodes 1"
PLANNER = "--planner icem --planner.candidates 28 --planner.elites 6 --controller.common-noise"
JOBS = {
    # family, agent: flags, seeds
    ("cadm-pendulum", "latent"): (SMALL, 5),
    ("cadm-pendulum", "generalist"): (SMALL, 5),
    ("cadm-cartpole", "latent"): (SMALL, 5),
    ("cadm-cartpole", "generalist"): (SMALL, 5),
    ("cadm-halfcheetah", "latent"): ("--preset cpu", 1),
}


@dataclass(frozen=True)
class CadmFlags(RecordFlags):
    """Train and evaluate on CaDM's benchmark families over seeds, and record every return.

    Runs that are there already are kept, and one that was stopped is resumed.
    """

    runs: Path = Path("runs/cadm")
    """Folder of the runs."""
    families: tuple[str, ...] = ()
    """Which of the three; all by default."""

    def __post_init__(self) -> None:
        for name in self.families:
            if name not in cadm.PUBLISHED:
                raise UserError(f"{name!r} is none of {', '.join(cadm.PUBLISHED)}")


Flags = CadmFlags


def measure_rows(flags: CadmFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    jobs = {job: how for job, how in JOBS.items() if not flags.families or job[0] in flags.families}
    rows = []
    for (family, agent), (settings, seeds) in jobs.items():
        for seed in range(seeds):
            path = run(flags, family, agent, settings, seed)
            rows.append({"family": family, "agent": agent, "seed": seed, "returns": cadm.returns_of(path)})
    return {" ".join(job): f"{settings} {PLANNER}" for job, (settings, _) in jobs.items()}, rows


def run(flags: CadmFlags, family: str, agent: str, settings: str, seed: int) -> Path:
    """A trained and evaluated run."""
    path = flags.runs / f"{family}-{agent}-{seed}"
    if (path / "evaluation.json").is_file():
        evaluate.require_whole(parse_json(read_text(path / "evaluation.json"))["contexts"])
        return path
    threads = ["--threads", str(flags.threads)]
    if (path / "config.json").is_file():
        train.main(["--resume", str(path), *threads])
    else:
        named = [family, "--agent", agent, "--seed", str(seed), "--out", str(path)]
        train.main([*named, *settings.split(), *PLANNER.split(), *threads])
    evaluate.main([str(path), *threads])
    return path


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return cadm.table(recording.rows)
