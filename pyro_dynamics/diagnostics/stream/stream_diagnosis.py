"""Where along a stream of steps a belief went wrong, and when: k-hat, coverage, and the truth beside the belief.

The reference at a step is the posterior of the oracle-reset baseline, which returns to the prior when the true context
changes, and so learns from the steps since then alone. Draws of the belief are weighted by it, and the tail of the
weights is judged by k-hat (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv:1507.02646).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.posterior.datatree import draw_log_likelihood
from pyro_dynamics.diagnostics.posterior.importance import Importance, importance
from pyro_dynamics.diagnostics.stream.central_region import REGION, central_region
from pyro_dynamics.diagnostics.stream.checks import RECENT
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.troubles import (
    Trouble,
    low_coverage,
    not_finite,
    outside_region,
    wrong_posterior,
)
from pyro_dynamics.diagnostics.verdict import Verdict, judge_stream, reasons_to_believe
from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.log_joint import log_joint_of_draws, whole_batch
from pyro_dynamics.inference.user_model import has_default_forward, has_default_prior, over_environments
from pyro_dynamics.transitions import Transitions

SHORT = 5
"""Steps: a context that stays for fewer, and whose predecessor did too, is one that changes all the time."""
WINDOW = 20
"""Steps that count where a context changes all the time."""
GROWTH = 0.1
"""A checkpoint with a tenth more transitions than the last adds little, and costs as much as it has of them."""
LIMIT = 7_000_000
"""Network evaluations of one diagnosis: 20 s on one core for 3 layers of 128 units."""


@dataclass(frozen=True)
class StreamDiagnosis:
    """What n checkpoints along T steps say about a belief; without a latent there are no checkpoints.

    Attributes:
        length: T.
        steps: the checkpoints, ``[n]``.
        since: the first transition of what the oracle-reset baseline would have learned from, at each checkpoint,
            ``[n]``.
        windowed: whether that was, somewhere, the last 20 steps, as the context changed all the time.
        k_hat: of the belief's draws against that posterior, ``[n]``; minus infinity where they are the same, NaN where
            nothing can be said for the belief.
        threshold: below this k-hat the belief stands for that posterior.
        shift: of the belief's mean by the weights, in its own standard deviations, ``[n][d]``; too little where k-hat
            is above its threshold.
        trouble: what is wrong for a stretch, in the order of the first steps.
        verdict: the word at the end, and why.
        running: coverage of each 50 steps running, ``[T - 49]``; the last value belongs to the last step.
        decoded: lower end, median and upper end of the belief's central 94 % region, read by the linear probe in the
            context's unit, ``[3][T]``, or ``[3][T][P]`` of P hidden parameters; None without a probe.
        probe_error: error of that probe on a context that it was not fitted to, in the same unit, or P of them; None
            without one.
    """

    length: int
    steps: list[int]
    since: list[int]
    windowed: bool
    k_hat: list[float]
    threshold: float
    shift: list[list[float]]
    trouble: list[Trouble]
    verdict: Verdict
    running: list[float]
    decoded: list[Any] | None
    probe_error: float | list[float] | None


def diagnose_stream(agent: Agent, evidence: Evidence, every: int = 10) -> StreamDiagnosis:
    """Judge the belief along T steps in one environment.

    Args:
        agent: any agent with the run's network: its own beliefs are not looked at.
        evidence: what is at hand.
        every: steps between two checkpoints of k-hat; more where many steps passed since the last change, and where
            the diagnosis would take longer than half a minute.

    Raises:
        UserError: if the draws are too few, or the adaptation is of another run than the agent.
    """
    length, latent, log_q = len(evidence.transitions), evidence.latent, evidence.log_q
    since, windowed = known_since(evidence.contexts)
    steps: list[int] = []
    judged: list[Importance] = []
    trouble: list[Trouble] = []
    decoded = error = None
    compared = False
    if latent is not None and log_q is not None:
        _refuse_another_run(agent, evidence.transitions, latent)
        trouble += not_finite(latent)
        if not trouble:
            if agent.guide.infers:  # else the belief is in closed form, and what is reported of it has no joint density
                steps = checkpoints(since, every, latent.shape[1] * agent.model.likelihood.members)
            judged = [_judge(agent, evidence, since[t], t) for t in steps]
            trouble += wrong_posterior(steps, judged, since)
            decoded, error, compared, outside = _beside_truth(evidence, latent, since)
            trouble += outside
    running = np.zeros(0) if evidence.coverage is None else running_coverage(evidence.coverage)
    trouble += low_coverage(running, length)
    trouble.sort(key=lambda one: (one.first, one.last))
    parameters = evidence.parameters if compared else ()
    well = [] if trouble else reasons_to_believe(steps, judged, running, parameters, REGION)
    verdict = judge_stream(length, trouble, evidence.beliefs, latent is not None, well)
    if windowed and judged:
        verdict.reasons.append(f"where the context changed all the time, the last {WINDOW} steps were the reference")
    return StreamDiagnosis(
        length=length,
        steps=steps,
        since=[since[step] for step in steps],
        windowed=windowed and bool(steps),
        k_hat=[one.k_hat for one in judged],
        threshold=judged[0].threshold if judged else 0.7,
        shift=[one.shift for one in judged],
        trouble=trouble,
        verdict=verdict,
        running=running.tolist(),
        decoded=None if decoded is None else decoded.tolist(),
        probe_error=None if error is None else error.tolist(),
    )


def _beside_truth(
    evidence: Evidence, latent: np.ndarray, since: Sequence[int]
) -> tuple[np.ndarray | None, np.ndarray | None, bool, list[Trouble]]:
    """The decoded region ``[3, T, ...]``, the probe's error, whether any truth is known, and where it lies outside."""
    probe, error = make_probe(evidence.trained_means, evidence.trained_contexts)
    if probe is None or error is None:
        return None, None, False, []
    decoded = central_region(probe.predict(latent))
    regions = np.moveaxis(decoded.reshape(3, len(latent), -1), -1, 0)
    truth = columns(evidence.contexts, len(evidence.parameters)).T
    each = zip(regions, np.atleast_1d(error), truth, evidence.parameters, strict=True)
    outside = [one for column in each for one in outside_region(*column, since)]
    return decoded, error, not np.isnan(truth).all(), outside


def known_since(contexts: Sequence[Context | None]) -> tuple[list[int], bool]:
    """For each of T steps the first one of what the oracle-reset baseline learns from, ``[T]``.

    That is the first step with the present context. Where the context changes all the time, the last 20 steps count.
    The second value says whether they did anywhere.
    """
    starts = [t for t in range(len(contexts)) if t == 0 or contexts[t] != contexts[t - 1]]
    lengths = np.diff([*starts, len(contexts)])
    since: list[int] = []
    windowed = False
    for j, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < SHORT and j and lengths[j - 1] < SHORT:
            since += [max(t - WINDOW + 1, 0) for t in range(start, start + length)]
            windowed = True
        else:
            since += [start] * length
    return since, windowed


def checkpoints(since: Sequence[int], every: int, evaluations: int) -> list[int]:
    """Steps at which k-hat is found: dense after a change, sparser later, and always the last.

    No transition may be left out of a posterior, so the number of checkpoints is what is saved on.

    Args:
        since: from :func:`known_since`, ``[T]``.
        every: the least distance of two checkpoints.
        evaluations: of the network for each transition of a checkpoint: draws times members.
    """
    scale = 1.0
    while True:
        chosen, last, cost = [], -1, 0
        for t, start in enumerate(since):
            rows = t - start + 1
            if t - last >= scale * max(every, GROWTH * rows) or t == len(since) - 1:
                chosen.append(t)
                last, cost = t, cost + rows * evaluations
        if cost <= LIMIT or len(chosen) == 1:
            return chosen
        scale *= 1.5


def make_probe(
    trained_means: np.ndarray | None, trained_contexts: Sequence[Context]
) -> tuple[ContextProbe | None, np.ndarray | None]:
    """The linear probe, and its error in the contexts' unit (``[]``, or ``[P]``); None where neither can be had.

    The error is the root mean square over trained contexts of what a probe makes of each that was fitted to the others:
    by so much a belief may seem to be off while it is the probe that is.

    Args:
        trained_means: ``[K, d]``.
        trained_contexts: K of them.
    """
    if trained_means is None or any(isinstance(context, str) for context in trained_contexts):
        return None, None
    count, d = trained_means.shape
    if not d or count < d + 2:  # one fitted to the others would fit anything
        return None, None
    numbers = np.array(list(trained_contexts), dtype=float)
    errors = [
        ContextProbe(np.delete(trained_means, k, 0), np.delete(numbers, k, 0)).predict(trained_means[k]) - numbers[k]
        for k in range(count)
    ]
    return ContextProbe(trained_means, numbers), np.sqrt(np.mean(np.square(errors), axis=0))


def running_coverage(coverage: np.ndarray) -> np.ndarray:
    """Mean of each 50 steps running (of all, if there are fewer), up to the last step: ``[T - 49]``."""
    width = min(RECENT, len(coverage))
    return np.convolve(coverage, np.ones(width) / width, mode="valid")


def _refuse_another_run(agent: Agent, data: Transitions, latent: np.ndarray) -> None:
    sizes = (data.state.shape[1], data.action.shape[1], latent.shape[2])
    wanted = (agent.task.state_dim, agent.task.action_dim, agent.belief_dim)
    if sizes != wanted:
        raise UserError(
            f"the adaptation has states, actions and latents of sizes {sizes}, the run {wanted}: give the run that "
            "it was made with"
        )
    if latent.shape[1] < 25:
        raise UserError(f"k-hat needs at least 25 draws, and there are {latent.shape[1]}: run adapt again")


def _judge(agent: Agent, evidence: Evidence, since: int, step: int) -> Importance:
    """Weigh the belief's draws ``[S, d]`` after a step by the posterior of the transitions from ``since`` on."""
    assert evidence.latent is not None
    assert evidence.log_q is not None
    latent, log_q, temperature = evidence.latent[step], evidence.log_q[step], evidence.temperature
    draws, seen = torch.from_numpy(latent), evidence.transitions.select(torch.arange(since, step + 1))
    if has_default_forward(agent.model):
        log_p = _log_prior(agent.model, draws)
        for _, value in draw_log_likelihood(agent, seen, draws[:, None]):
            log_p += temperature * value.double().sum(1)
    else:
        inputs, targets = agent.task.inputs(seen.state, seen.action), agent.task.targets(seen.state, seen.next_state)
        model, members = over_environments(agent.model, 1), agent.model.likelihood.members
        batch = whole_batch(inputs, targets, torch.zeros(len(seen), dtype=torch.long), members, temperature)
        log_p = log_joint_of_draws(model, batch, draws[:, None])[:, 0].double()
    return importance(log_p.numpy(), log_q.astype(float), latent.astype(float))


def _log_prior(model: Any, draws: torch.Tensor) -> torch.Tensor:
    """log p(e) up to a constant at draws ``[S, d]``: ``[S]``."""
    if has_default_prior(model):
        return -0.5 * draws.double().square().sum(-1)
    return over_environments(model, 1).prior().log_prob(draws[:, None])[:, 0].double()
