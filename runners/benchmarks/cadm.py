"""pyro-dynamics benchmark cadm: train and evaluate on CaDM's benchmark families over seeds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyro_dynamics.benchmarks import cadm
from pyro_dynamics.benchmarks.recording import Recording, measured_before, save_recording
from pyro_dynamics.data_files import parse_json, read_text
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.runners import evaluate, train
from pyro_dynamics.runners.benchmarks.common import RecordFlags, file_of

SMALL = "--preset cpu --rounds 5 --episodes 1"
DRAWN = "--preset cpu --rounds 17 --episodes 1 --episode-contexts list"
"""18 rounds of 11 episodes of 200 steps: 39,600 steps, of CaDM's 40,000."""
PLANNER = "--planner icem --planner.candidates 28 --planner.elites 6 --controller.common-noise"
LATENT, GENERALIST = "--agent latent", "--agent generalist"
JOBS = {
    # family, agent: flags, seeds
    "fixed": {
        ("cadm-pendulum", "latent"): (f"{LATENT} {SMALL}", 5),
        ("cadm-pendulum", "generalist"): (f"{GENERALIST} {SMALL}", 5),
        ("cadm-cartpole", "latent"): (f"{LATENT} {SMALL}", 5),
        ("cadm-cartpole", "generalist"): (f"{GENERALIST} {SMALL}", 5),
        ("cadm-halfcheetah", "latent"): (f"{LATENT} --preset cpu", 1),
    },
    "drawn": {
        (family, agent): (f"{how} {DRAWN}", 5)
        for family in ("cadm-pendulum", "cadm-cartpole")
        for agent, how in (
            ("latent", LATENT),
            ("latent, amortized guide", f"{LATENT} --guide amortized"),
            ("generalist", GENERALIST),
        )
    },
}
"""By how contexts are met: the same environments in all rounds, or drawn for each episode as CaDM does."""


@dataclass(frozen=True)
class CadmFlags(RecordFlags):
    """Train and evaluate on CaDM's benchmark families over seeds, and record every return.

    Runs that are there already are kept, as are rows in the file of --out, and a run that was stopped is resumed.
    """

    runs: Path = Path("runs/cadm")
    """Folder of the runs."""
    families: tuple[str, ...] = ()
    """Which of the three; all by default."""
    contexts: Literal["fixed", "drawn"] = "fixed"
    """fixed: ten or eleven environments, the same in all rounds, with 13,200 or 26,000 transitions. drawn: Pendulum and
    CartPole with CaDM's amount of data, 39,600 of its 40,000 transitions, and as there a context drawn for each
    episode."""
    seeds: int = 5
    """At most so many seeds of each. The row of each is recorded as soon as it is there."""

    def __post_init__(self) -> None:
        require_positive(self, "seeds")
        for name in self.families:
            if name not in cadm.PUBLISHED:
                raise UserError(f"{name!r} is none of {', '.join(cadm.PUBLISHED)}")


Flags = CadmFlags


def measure_rows(flags: CadmFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    every = JOBS[flags.contexts]
    jobs = {job: how for job, how in every.items() if not flags.families or job[0] in flags.families}
    if not jobs:
        families = ", ".join(dict.fromkeys(family for family, _ in every))
        raise UserError(f"--contexts {flags.contexts} is measured on {families} alone")
    how = {" ".join(job): f"{settings} {PLANNER}" for job, (settings, _) in every.items()}
    out = file_of(flags, "cadm")
    rows = measured_before(out, "cadm", how)
    known = {(row["family"], row["agent"], row["seed"]) for row in rows}
    for seed in range(flags.seeds):  # so that a benchmark that is stopped has as many seeds of each
        for (family, agent), (settings, seeds) in jobs.items():
            if seed < seeds and (family, agent, seed) not in known:
                path = run(flags, family, agent, settings, seed)
                about = {"family": family, "agent": agent, "contexts": flags.contexts, "seed": seed}
                rows.append({**about, "steps": cadm.steps_of(path), "returns": cadm.returns_of(path)})
                rows.sort(key=lambda row: list(every).index((row["family"], row["agent"])))
                if out is not None:  # at once: hours may lie between two runs
                    save_recording(Recording("cadm", how, rows), out)
    return how, rows


def run(flags: CadmFlags, family: str, agent: str, settings: str, seed: int) -> Path:
    """A trained and evaluated run."""
    drawn = "-drawn" if flags.contexts == "drawn" else ""
    path = flags.runs / f"{family}-{agent.replace(', ', '-').replace(' ', '-')}{drawn}-{seed}"
    if (path / "evaluation.json").is_file():
        evaluate.require_whole(parse_json(read_text(path / "evaluation.json"))["contexts"])
        return path
    threads = ["--threads", str(flags.threads)]
    if (path / "config.json").is_file():
        train.main(["--resume", str(path), *threads])
    else:
        named = [family, "--seed", str(seed), "--out", str(path)]
        train.main([*named, *settings.split(), *PLANNER.split(), *threads])
    evaluate.main([str(path), *threads])
    return path


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return cadm.table(recording.rows)
