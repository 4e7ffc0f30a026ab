"""The verdict about the belief along a stream, for all commands: out of all that an adaptation knows."""

from typing import Any

import numpy as np

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.stream_diagnosis import StreamDiagnosis, diagnose_stream
from pyro_dynamics.environments import Family
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import Adaptation


def judge_adaptation(
    adaptation: Adaptation, trained: AgentGroup, family: Family, expected: float | None
) -> StreamDiagnosis:
    """Judge the belief along an adaptation.

    Args:
        adaptation: made just now, or read from its folder.
        trained: the agents of its run.
        family: the run's.
        expected: from :func:`reached`.
    """
    means, scales = (part.numpy() for part in trained.beliefs())
    evidence = Evidence(
        adaptation.transitions,
        adaptation.contexts,
        adaptation.temperature,
        adaptation.latent,
        adaptation.log_q,
        adaptation.coverage,
        _beliefs(adaptation.rows, means, scales, expected),
        means,
        family.train,
        family.parameters,
    )
    return diagnose_stream(trained.agents[0], evidence)


def _beliefs(
    rows: list[dict[str, Any]], means: np.ndarray, scales: np.ndarray, expected: float | None
) -> Stream | None:
    """The beliefs and predictions by step; None for an agent without a latent, or where an older version made them."""
    try:
        parts = [np.array([row[key] for row in rows], dtype=float) for key in ("mean", "sd", "log_likelihood", "pit")]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    mean, scale, log_likelihood, pit = parts
    if not mean.shape[1] or pit.ndim != 2 or mean.shape[1:] != means.shape[1:]:
        return None
    return Stream(mean, scale, log_likelihood, pit, means, scales, expected)


def reached(folder: RunFolder, checkpoint: int | None) -> float | None:
    """Mean log-likelihood in nats of the held-out episodes of the checkpoint's round; None after no training."""
    m = folder.last_round if checkpoint is None else checkpoint
    values = [row["log_likelihood"] for row in folder.metrics() if row["round"] == m]
    return float(np.mean(values)) if values and None not in values else None
