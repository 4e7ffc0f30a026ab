"""Train and evaluate on CaDM's benchmark families over seeds, and print the returns with CaDM's as Markdown.

    python docs/measure_cadm.py FOLDER > docs/results/cadm.md

FOLDER has the runs: existing ones are kept, and a run that was stopped is resumed.
"""

import json
import math
import statistics
import sys
from pathlib import Path

from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.runners.main import main as pyro_dynamics

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
PUBLISHED = {
    "cadm-pendulum": "-985.7, with CaDM -705.5, vanilla CaDM -593.7",
    "cadm-cartpole": "171.3, with CaDM 187.3",
    "cadm-halfcheetah": "2019.6, with CaDM 7087.2 (1000 steps)",
}
"""CaDM's PE-TS on its moderate sets (table 1 of the paper)."""


def run(folder: Path, family: str, agent: str, flags: str, seed: int) -> Path:
    """A trained and scored run."""
    path = folder / f"{family}-{agent}-{seed}"
    if (path / "evaluation.json").is_file():
        return path
    command = f"train {family} --agent {agent} --seed {seed} {flags} {PLANNER} --out {path}"
    if (path / "config.json").is_file():
        command = f"train --resume {path}"
    for words in (command, f"evaluate {path}"):
        if code := pyro_dynamics(words.split()):
            sys.exit(code)
    return path


def scores(path: Path) -> dict[str, float]:
    """Mean return of the last round of training, and of each test set."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    last = max(row["round"] for row in rows)
    returns = {"train": [row["return"] for row in rows if row["round"] == last]}
    for row in json.loads((path / "evaluation.json").read_text())["contexts"]:
        returns.setdefault(row["set"], []).extend(episode["return"] for episode in row["episodes"])
    return {name: statistics.mean(values) for name, values in returns.items()}


def interval(values: list[float]) -> str:
    """Mean with its standard error."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} +- {statistics.stdev(values) / math.sqrt(len(values)):.1f}"


def main(folder: Path) -> None:
    """Run what is missing, then print the table."""
    lines = []
    for (family, agent), (flags, seeds) in JOBS.items():
        found = [scores(run(folder, family, agent, flags, seed)) for seed in range(seeds)]
        cells = [interval([one[name] for one in found]) for name in ("train", "moderate", "extreme")]
        lines.append([family, agent, str(seeds), *cells, str(PUBLISHED[family])])
    head = ["family", "agent", "seeds", "train", "moderate", "extreme", "CaDM's PE-TS, moderate"]
    print(markdown_table(head, lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
