"""Returns on CaDM's benchmark families, beside those of CaDM's paper."""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

PUBLISHED = {
    "cadm-pendulum": "-985.7, with CaDM -705.5, vanilla CaDM -593.7",
    "cadm-cartpole": "171.3, with CaDM 187.3",
    "cadm-halfcheetah": "2019.6, with CaDM 7087.2 (1000 steps)",
}
"""PE-TS on its moderate sets, by table 1 of the paper (arXiv:2005.06800)."""
SETS = ("train", "moderate", "extreme")


def returns_of(run: Path) -> dict[str, list[float]]:
    """Returns of the last round of training, and of every evaluated episode of each test set."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = max(row["round"] for row in rows)
    returns = {"train": [row["return"] for row in rows if row["round"] == last]}
    for row in json.loads((run / "evaluation.json").read_text())["contexts"]:
        returns.setdefault(row["set"], []).extend(episode["return"] for episode in row["episodes"])
    return returns


def steps_of(run: Path) -> int:
    """How many steps were made in the environments for the training, those of the last round too."""
    return sum(json.loads(line)["steps"] for line in (run / "metrics.jsonl").read_text().splitlines())


def table(rows: Sequence[Row]) -> str:
    """Mean over seeds of the mean return, with its standard error, as Markdown; sets without rows are left out.

    Args:
        rows: one for each run, with ``family``, ``agent``, ``seed`` and ``returns`` as :func:`returns_of` gives them,
            and as a rule ``steps``, as :func:`steps_of` does.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["family"], row["agent"]), []).append(row)
    sets = [name for name in SETS if all(name in row["returns"] for row in rows)]
    counted = all("steps" in row for row in rows)
    lines = []
    for (family, agent), found in groups.items():
        cells = [interval([statistics.mean(row["returns"][name]) for row in found]) for name in sets]
        data = [f"{statistics.mean(row['steps'] for row in found):,.0f}"] if counted else []
        lines.append([family, agent, str(len(found)), *data, *cells, PUBLISHED[family]])
    data = ["steps to train"] if counted else []
    return markdown_table(["family", "agent", "seeds", *data, *sets, "CaDM's PE-TS, moderate"], lines)


def interval(values: Sequence[float]) -> str:
    """Mean with its standard error."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} +- {statistics.stdev(values) / math.sqrt(len(values)):.1f}"
