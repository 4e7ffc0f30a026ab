"""Kill commands at random moments, take them up again, and compare what they leave with an undisturbed run.

    python tests/kills.py KILLS [SEED] [COMMAND ...]

So many kills for each command (train, adapt, diagnose, reproduce; all by default). After each kill every file that has
its final name is read; after each attempt that came to its end all files are compared, byte for byte.
"""

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import torch
from killed import attempt, run

from pyro_dynamics.data_files import read_arrays
from pyro_dynamics.io.checkpoint_files import load_state

TRAIN = [
    *("train", "--rounds", "3", "--steps", "25", "--episodes", "1", "--ensemble.hidden", "16"),
    *("--ensemble.weight-decay", "0", "0", "--offline.min-steps", "50", "--offline.epochs", "2"),
    *("--controller.horizon", "5", "--planner.candidates", "20", "--planner.elites", "4"),
]


@dataclass(frozen=True)
class Job:
    """A command whose results are one folder.

    Attributes:
        start: its arguments, for a folder that is empty or that a killed attempt has left.
        prepare: makes what the command needs, in a folder of its own.
    """

    start: Callable[[Path, Path], list[str]]
    prepare: Callable[[Path], None] = lambda _: None


def train_or_resume(_: Path, out: Path) -> list[str]:
    return ["train", "--resume", str(out)] if (out / "config.json").is_file() else [*TRAIN, "--out", str(out)]


def trained(home: Path) -> None:
    attempt([*TRAIN, "--rounds", "1", "--out", str(home / "run")])


JOBS = {
    "train": Job(train_or_resume),
    "adapt": Job(
        lambda home, out: [
            *("adapt", str(home / "run"), "--schedule", "0:3,20:9", "--steps", "40"),
            *("--update", "kalman", "--belief", "changepoint", "--out", str(out)),
        ],
        trained,
    ),
    "diagnose": Job(lambda home, out: ["diagnose", str(home / "run"), "--draws", "200", "--out", str(out)], trained),
    "reproduce": Job(
        lambda _, out: [
            *("reproduce", "--preset", "quick", "--seeds", "1", "--baseline-seeds", "1", "--out", str(out)),
        ]
    ),
}


def finished(folder: Path) -> list[Path]:
    """The files that have their final names; the lock is none of them."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if ".part" not in file.name and file.name != "lock"]


READERS: dict[str, Callable[[Path], object]] = {
    ".json": lambda file: json.loads(file.read_text()),
    ".jsonl": lambda file: [json.loads(line) for line in file.read_text().splitlines()],
    ".npz": read_arrays,
    ".pt": load_state,
    ".png": plt.imread,
    ".nc": lambda file: h5py.File(file).close(),
    ".md": lambda file: file.read_text().endswith("\n") or 1 / 0,
    ".html": lambda file: file.read_text().rstrip().endswith("</html>") or 1 / 0,
}


def read_all(folder: Path) -> None:
    """Every finished file is whole."""
    for file in finished(folder):
        READERS[file.suffix](file)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in finished(folder)}


def kill(job: Job, kills: int, moments: random.Random, home: Path) -> tuple[int, int]:
    """Runs that came to their end, and how many of them left other files than the undisturbed one."""
    job.prepare(home)
    out = home / "out"
    longest = 1.1 * (attempt(job.start(home, out)) or 0.0)
    honest = contents(out)
    ended = others = done = 0
    while done < kills:
        shutil.rmtree(out)
        done += run(kills - done, moments, longest, lambda: job.start(home, out), lambda: read_all(out))
        print(f"\r{done} kills", end="", file=sys.stderr, flush=True)
        ended += 1
        others += contents(out) != honest
    return ended, others


def main(kills: int, seed: int = 0, *names: str) -> int:
    """Print a row for each command; 1 if anything was lost."""
    torch.set_num_threads(1)
    print(f"{'command':<12}{'kills':>6}{'runs that ended':>17}{'with other files':>18}", flush=True)
    lost = 0
    for name in names or JOBS:
        with tempfile.TemporaryDirectory() as folder:
            ended, others = kill(JOBS[name], kills, random.Random(seed), Path(folder))
        print(f"\r{name:<12}{kills:>6}{ended:>17}{others:>18}", flush=True)
        lost += others
    return int(lost > 0)


if __name__ == "__main__":
    _, wanted, *rest = sys.argv
    sys.exit(main(int(wanted), int(rest[0]) if rest else 0, *rest[1:]))
