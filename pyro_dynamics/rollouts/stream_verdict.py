"""The verdict about the belief along a stream, for all commands: out of all that an adaptation knows."""

from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.stream_diagnosis import StreamDiagnosis, diagnose_stream
from pyro_dynamics.environments import Family
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.inference.user_model import over_environments, population
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.seeding import drawing_from


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
    agent = trained.agents[0]
    means, scales = (part.numpy() for part in trained.beliefs())
    online = adaptation.summary["online"]
    name, settings = online.get("belief"), online.get("belief_config") or {}
    evidence = Evidence(
        adaptation.transitions,
        adaptation.contexts,
        adaptation.temperature,
        adaptation.latent,
        adaptation.log_q,
        adaptation.coverage,
        _beliefs(adaptation.rows, means, scales, expected, agent),
        means,
        family.train,
        family.parameters,
        trained_covariances=_covariances(trained),
        begun=_begun(adaptation.rows),
        window=settings.get("length") if name == "window" else None,
        forgetting_factor=settings.get("forgetting_factor", 1.0) if name == "power" else 1.0,
        drifts=name == "diffusion",
        members=agent.model.likelihood.members if online.get("belief_per") == "member" else 1,
    )
    return diagnose_stream(agent, evidence)


def _begun(rows: list[dict[str, Any]]) -> np.ndarray | None:
    """The first of the transitions that the belief rests on after each step, ``[T]``; None where it finds no changes.

    Adaptations of older versions do not say.
    """
    lengths = [row.get("rests_on") for row in rows]
    if any(not isinstance(length, int) for length in lengths):
        return None
    return np.maximum(np.arange(len(rows)) + 1 - np.array(lengths), 0)


def _covariances(trained: AgentGroup) -> np.ndarray | None:
    """Of the trained environments' posteriors, ``[K, d, d]``; None for agents without a latent."""
    if len(trained.agents) > 1 or not trained.agents[0].belief_dim:
        return None
    with torch.no_grad(), drawing_from(torch.Generator().manual_seed(0)):
        return np.asarray(moments(trained.agents[0].posterior())[1])


def _beliefs(
    rows: list[dict[str, Any]], means: np.ndarray, scales: np.ndarray, expected: float | None, agent: Agent
) -> Stream | None:
    """The beliefs and predictions by step; None for an agent without a latent, or where an older version made them."""
    try:
        parts = [np.array([row[key] for row in rows], dtype=float) for key in ("mean", "sd", "log_likelihood", "pit")]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    mean, scale, log_likelihood, pit = parts
    if not mean.shape[1] or pit.ndim != 2 or mean.shape[1:] != means.shape[1:]:
        return None
    with torch.no_grad():
        prior = population(over_environments(agent.model, 1)).stddev[0].numpy()
    prior = prior if agent.guide.infers else np.ones(mean.shape[1])  # what is reported of a last layer begins at 1
    return Stream(mean, scale, log_likelihood, pit, means, scales, expected, prior)


def reached(folder: RunFolder, checkpoint: int | None) -> float | None:
    """Mean log-likelihood in nats of the held-out episodes of the checkpoint's round; None after no training."""
    m = folder.last_round if checkpoint is None else checkpoint
    values = [row["log_likelihood"] for row in folder.metrics() if row["round"] == m]
    return float(np.mean(values)) if values and None not in values else None
