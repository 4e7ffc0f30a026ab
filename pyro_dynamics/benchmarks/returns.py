"""Whether one set of runs earns more than another: mean returns by seed, and the interval of the difference."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from pyro_dynamics.benchmarks.belief.measures import half_width
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

RUNS, AGAINST = "runs", "against"
LAST = 1 / 3
"""Share of the rounds, the last ones, whose returns count as those of a training: a single round is a few episodes."""


def mean_by_set(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Mean return of each set of contexts, and of all contexts, out of what ``evaluate`` stored."""
    returns: dict[str, list[float]] = {"all": []}
    for context in evaluation["contexts"]:
        found = mean(episode["return"] for episode in context["episodes"])
        returns["all"].append(found)
        returns.setdefault(context["set"], []).append(found)
    return {name: mean(values) for name, values in returns.items()}


def of_training(metrics: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean return in the trained environments over the last third of the rounds, out of ``metrics.jsonl``."""
    rounds = max(row["round"] for row in metrics)
    last = [row["return"] for row in metrics if row["round"] > rounds - math.ceil(LAST * rounds)]
    return {"trained on": mean(last)}


def table(rows: Sequence[Row]) -> str:
    """A line for each family and set of contexts, as Markdown; the interval after +- is Student's 95 % over seeds.

    Args:
        rows: one for each run, with ``family``, ``seed``, ``group`` (RUNS or AGAINST) and ``returns`` as
            :func:`mean_by_set` gives them. Differences are taken between runs of one seed.
    """
    lines = []
    for family in dict.fromkeys(row["family"] for row in rows):
        groups = [
            {row["seed"]: row["returns"] for row in rows if (row["family"], row["group"]) == (family, name)}
            for name in (RUNS, AGAINST)
        ]
        seeds = [seed for seed in groups[0] if seed in groups[1]]
        for name in groups[0][seeds[0]] if seeds else ():
            one, other = ([group[seed][name] for seed in seeds] for group in groups)
            difference = with_interval([a - b for a, b in zip(one, other, strict=True)], "+.1f")
            lines.append([family, name, str(len(seeds)), with_interval(one), with_interval(other), difference])
    return markdown_table(["family", "contexts", "seeds", "these", "those", "these less those"], lines)


def with_interval(values: Sequence[float], form: str = ".1f") -> str:
    """Mean and half the width of its interval."""
    half = half_width(values)
    return f"{mean(values):{form}}" + ("" if half is None else f" +- {half:.1f}")
