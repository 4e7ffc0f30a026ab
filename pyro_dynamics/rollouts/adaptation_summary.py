"""What an adaptation comes to: a row for each step, and the summary of all rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.prediction.predictive import coverage, pit_histogram
from pyro_dynamics.diagnostics.stream.checks import RECENT
from pyro_dynamics.diagnostics.stream.stream_diagnosis import SHORT
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.rollouts.adaptation import AdaptationStep


def as_row(step: AdaptationStep, k: int = 0) -> dict[str, Any]:
    """A step of environment k, as a line of ``steps.jsonl``."""
    return {
        "step": step.index,
        "context": as_json(step.context[k]),
        "reward": float(step.reward[k]),
        "log_likelihood": float(step.log_likelihood[k]),
        "coverage": float(coverage(step.pit[k])),
        "coverage_adaptive": float(step.inside[k].float().mean()),
        "pit": step.pit[k].tolist(),
        "mean": step.mean[k].tolist(),
        "sd": step.scale[k].tolist(),
    }


def as_json(context: Any) -> Context | None:
    """A context out of an array of the vector environment; None where it is not known."""
    return context if context is None or isinstance(context, str | tuple) else float(context)


def line(row: dict[str, Any]) -> str:
    """One step for people."""
    belief = "  ".join(f"{mean:+.3f} +- {sd:.3f}" for mean, sd in zip(row["mean"], row["sd"], strict=True))
    numbers = f"{row['reward']:>8.2f} {row['log_likelihood']:>9.2f} {row['coverage']:>8.0%}"
    return f"{row['step']:>5} {label(row['context']):>20} {numbers}  {belief}"


def summarise(rows: Sequence[dict[str, Any]], trained: AgentGroup, family: Family) -> dict[str, Any]:
    """Return, mean log-likelihood, coverage, and the belief at the end of every stretch of constant context.

    A context that stays for fewer than five steps changes all the time, and does not count as one.
    """
    ends = [i for i in range(len(rows)) if i + 1 == len(rows) or rows[i + 1]["context"] != rows[i]["context"]]
    ends = [i for i, before in zip(ends, [-1, *ends[:-1]], strict=True) if i - before >= SHORT or i == ends[-1]]
    return {
        "return": sum(row["reward"] for row in rows),
        "log_likelihood": sum(row["log_likelihood"] for row in rows) / len(rows),
        "coverage": {
            "all": float(np.mean([row["coverage"] for row in rows])),
            f"last_{RECENT}": float(np.mean([row["coverage"] for row in rows[-RECENT:]])),
        },
        "pit": pit_histogram(torch.tensor([row["pit"] for row in rows])),
        "belief": [describe(rows[i], trained, family) for i in ends],
    }


def coverage_line(shares: dict[str, float]) -> str:
    """How many of the targets lay in their 90 % intervals."""
    every, recent = shares.values()
    return f"coverage of 90 % intervals: {every:.0%} over the whole stream, {recent:.0%} over the last {RECENT} steps"


def describe(row: dict[str, Any], trained: AgentGroup, family: Family) -> dict[str, Any]:
    """Where a belief lies among the environments that were trained on."""
    entry = {key: row[key] for key in ("step", "context", "mean", "sd")}
    if not row["mean"]:
        return {**entry, "words": "this agent infers no latent, and so has no belief"}
    means = trained.beliefs()[0].numpy()
    here = np.array(row["mean"])
    closest = family.train[int(np.linalg.norm(means - here, axis=1).argmin())]
    entry["nearest_trained"] = closest
    words = f"nearest trained latent {label(closest)}"
    if family.numeric:
        probe = ContextProbe(means, family.train)
        decoded, spread = probe.predict(here), probe.spread(np.array(row["sd"]))
        entry["decoded"], entry["decoded_sd"] = decoded.tolist(), spread.tolist()
        names = [f"{name} " if len(family.parameters) > 1 else "" for name in family.parameters]
        numbers = zip(names, np.atleast_1d(decoded), np.atleast_1d(spread), family.units, strict=True)
        read = ", ".join(f"{name}{value:.2f} +- {sd:.2f} {unit}".rstrip() for name, value, sd, unit in numbers)
        words = f"decoded {read}, {words}"
    return {**entry, "words": words}
