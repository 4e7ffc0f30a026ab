"""What an adaptation comes to: a row for each step, and the summary of all rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.prediction.predictive import coverage, pit_histogram
from pyro_dynamics.diagnostics.stream.checks import RECENT
from pyro_dynamics.diagnostics.stream.reference import SHORT
from pyro_dynamics.environments import Context, Family
from pyro_dynamics.environments.context_text import interval, label
from pyro_dynamics.rollouts.adaptation import AdaptationStep

NINETY = 1.6449
"""Standard deviations on each side of a Gaussian's mean that cover 90 %."""


def as_row(step: AdaptationStep, k: int = 0) -> dict[str, Any]:
    """A step of environment k, as a line of ``steps.jsonl``."""
    return {
        "step": step.index,
        "context": as_json(step.context[k]),
        "reward": float(step.reward[k]),
        "log_likelihood": float(step.log_likelihood[k]),
        "coverage": float(coverage(step.pit[k])),
        "width": float(step.factor[k].log().mean().exp()),
        "pit": step.pit[k].tolist(),
        "mean": step.mean[k].tolist(),
        "sd": step.scale[k].tolist(),
        "changed": bool(step.changed[k]),
        "rests_on": None if step.rests_on is None else int(step.rests_on[k]),
    }


def as_json(context: Any) -> Context | None:
    """A context out of an array of the vector environment; None where it is not known."""
    return context if context is None or isinstance(context, str | tuple) else float(context)


def summarise(
    rows: Sequence[dict[str, Any]], trained: AgentGroup, family: Family, latent: np.ndarray | None = None
) -> dict[str, Any]:
    """Return, log-likelihood, coverage and width of intervals, and the belief after every stretch of constant context.

    A context that stays for fewer than five steps changes all the time, and does not count as one.

    Args:
        rows: T lines of ``steps.jsonl``.
        trained: the trained agents.
        family: their environments.
        latent: draws of the belief after each step, ``[T, S, d]``, from which the intervals are then taken.
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
        "width": {"all": mean_width(rows), f"last_{RECENT}": mean_width(rows[-RECENT:])},
        "pit": pit_histogram(torch.tensor([row["pit"] for row in rows])),
        "belief": [describe(rows[i], trained, family, None if latent is None else latent[i]) for i in ends],
    }


def mean_width(rows: Sequence[dict[str, Any]]) -> float:
    """The factor on the width of the network's own 90 % intervals with which they cover 90 %: a geometric mean.

    Adaptive intervals come to it by what is observed, whatever the belief is.
    """
    return float(np.exp(np.mean([np.log(row["width"]) for row in rows])))


def coverage_line(coverage: dict[str, float], width: dict[str, float], steps: int) -> str:
    """How many of the targets lay in the network's own 90 % intervals, and how wide these should be.

    Args:
        coverage: over all steps, and over the last 50.
        width: the factor with which they cover 90 %, over the same.
        steps: of the stream.
    """
    every, recent = coverage.values()
    last = f", {recent:.0%} over the last {RECENT} steps" if steps > RECENT else ""
    factor = list(width.values())[-1]
    return (
        f"coverage of the network's own 90 % intervals: {every:.0%} over all {steps} steps{last} "
        f"({factor:.2g} times as wide they would cover 90 %)"
    )


def describe(
    row: dict[str, Any], trained: AgentGroup, family: Family, draws: np.ndarray | None = None
) -> dict[str, Any]:
    """Where a belief lies among the environments that were trained on, with draws of it ``[S, d]`` if there are any."""
    entry = {key: row[key] for key in ("step", "context", "mean", "sd")}
    if not row["mean"]:
        return {**entry, "words": "this agent infers no latent, and so has no belief"}
    means = trained.beliefs()[0].numpy()
    here = np.array(row["mean"])
    closest = family.train[int(np.linalg.norm(means - here, axis=1).argmin())]
    entry["nearest_trained"] = closest
    words = f"nearest trained latent {label(closest)}"
    if family.decodable:
        probe = ContextProbe(means, family.train)
        decoded, spread = probe.predict(here), np.hypot(probe.spread(np.array(row["sd"])), probe.error(here))
        entry["decoded"], entry["decoded_sd"] = decoded.tolist(), spread.tolist()
        quantiles = np.stack([decoded - NINETY * spread, decoded, decoded + NINETY * spread])
        if draws is not None and len(draws):  # of a mixture the mean may lie outside of the interval
            quantiles = np.quantile(probe.draws(draws), [0.05, 0.5, 0.95], axis=0)
        entry["decoded_quantiles"] = quantiles.tolist()
        words = f"{decoded_words(family, *quantiles)}, {words}"
    return {**entry, "words": words}


def decoded_words(family: Family, low: Any, middle: Any, high: Any) -> str:
    """Each hidden parameter as the belief has it, with its 90 % interval: ``gravity 7.02 m/s^2 (90 %: 6.51 to 7.53)``.

    Args:
        family: of P hidden parameters.
        low: lower ends of their intervals, a number or P of them.
        middle: their medians, as many.
        high: upper ends.
    """
    columns = (np.atleast_1d(part) for part in (middle, low, high))
    each = zip(family.parameters, family.units, *columns, strict=True)
    return ", ".join(interval(*one) for one in each)
