"""Where along a stream of steps a belief went wrong, and when: k-hat, coverage, and the truth beside the belief.

The yardstick at a step is the posterior of an agent that was TOLD when the true context last changed, and so learns
from the steps since then alone. Draws of the belief are weighted by it, and the tail of the weights judged by k-hat
(Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv:1507.02646).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.posterior.datatree import draw_log_likelihood
from pyro_dynamics.diagnostics.posterior.importance import Importance, importance
from pyro_dynamics.diagnostics.stream.central_region import central_region
from pyro_dynamics.diagnostics.stream.health import RECENT
from pyro_dynamics.diagnostics.stream.troubles import (
    Trouble,
    low_coverage,
    outside_region,
    reasons_for,
    verdict_on,
    wrong_posterior,
)
from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.log_joint import log_joint_of_draws, whole_batch
from pyro_dynamics.inference.user_model import has_default_forward, has_default_prior, over_environments
from pyro_dynamics.transitions import Transitions

SHORT = 5
"""Steps: a context that stays for fewer, and whose predecessor did too, is one that changes all the time."""
WINDOW = 20
"""Steps that tell of a context that changes all the time."""
GROWTH = 0.1
"""A checkpoint with a tenth more transitions than the last tells little new, and costs as much as it has of them."""
LIMIT = 7_000_000
"""Network evaluations of one diagnosis: 20 s on one core for 3 layers of 128 units."""


@dataclass(frozen=True)
class StreamDiagnosis:
    """What n checkpoints along T steps say about a belief; without a latent there are no checkpoints.

    Attributes:
        length: T.
        steps: the checkpoints, ``[n]``.
        since: the first transition of what a told agent would have learned from, at each checkpoint, ``[n]``.
        windowed: whether that was, somewhere, the last 20 steps, as the context changed all the time.
        k_hat: of the belief's draws against the told agent's posterior, ``[n]``; minus infinity where they are the
            same, NaN where nothing can be said for the belief.
        threshold: below this k-hat the belief stands for that posterior.
        shift: how far the weights pull the belief's mean, in its own standard deviations, ``[n][d]``; too little where
            k-hat is above its threshold.
        trouble: what is wrong for a stretch, in the order of the first steps.
        verdict: ``believe``, ``believe again since step 120`` or ``do not believe since step 200``; ``no posterior``
            for an agent without a latent whose predictions are well.
        why: the reason, with the numbers.
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
    verdict: str
    why: str
    running: list[float]
    decoded: list[Any] | None
    probe_error: float | list[float] | None


def diagnose_stream(
    agent: Any,
    data: Transitions,
    latent: np.ndarray | None,
    log_q: np.ndarray | None,
    contexts: Sequence[Context | None],
    temperature: float,
    every: int = 10,
    *,
    coverage: np.ndarray | None = None,
    trained_means: np.ndarray | None = None,
    trained_contexts: Sequence[Context] = (),
    parameters: Sequence[str] = ("context",),
) -> StreamDiagnosis:
    """Judge the belief along T steps in one environment.

    Args:
        agent: any agent with the run's network: its own beliefs are not looked at.
        data: the T transitions, of environment 0.
        latent: draws of the belief after each step, ``[T, S, d]``, or None for an agent without a latent.
        log_q: the belief's log density at them in nats, ``[T, S]``, or None.
        contexts: the true hidden parameter at each step, T of them; None where it is not known.
        temperature: power of the likelihood in the belief's updates.
        every: steps between two checkpoints of k-hat; more where many steps passed since the last change, and where
            the diagnosis would take longer than half a minute.
        coverage: share of the targets inside their 90 % intervals at each step, ``[T]``.
        trained_means: latent means of the environments that were trained on, ``[K, d]``; with them and with contexts
            that are numbers, the belief is read by the linear probe and compared to the truth.
        trained_contexts: their contexts, K of them.
        parameters: what the hidden parameters are called, for people.

    Raises:
        UserError: if the draws are too few, or the adaptation is of another run than the agent.
    """
    told, windowed = told_since(contexts)
    steps: list[int] = []
    judged: list[Importance] = []
    trouble: list[Trouble] = []
    decoded = error = None
    compared = False
    if latent is not None and log_q is not None:
        _refuse_another_run(agent, data, latent)
        steps = checkpoints(told, every, latent.shape[1] * agent.model.likelihood.members)
        judged = [_judge(agent, data, latent[t], log_q[t], told[t], t, temperature) for t in steps]
        trouble += wrong_posterior(steps, judged, told)
        probe, error = make_probe(trained_means, trained_contexts)
        if probe is not None and error is not None:
            decoded = central_region(probe.predict(latent))
            regions = np.moveaxis(decoded.reshape(3, len(contexts), -1), -1, 0)
            truth = columns(contexts, len(parameters)).T
            compared = not np.isnan(truth).all()
            for column in zip(regions, np.atleast_1d(error), truth, parameters, strict=True):
                trouble += outside_region(*column, told)
    running = np.zeros(0) if coverage is None else running_coverage(coverage)
    trouble += low_coverage(running, len(data))
    trouble.sort(key=lambda one: (one.first, one.last))
    reasons = reasons_for(trouble, steps, judged, running, parameters if compared else ())
    if windowed and judged:
        reasons.append(f"where the context changed all the time, the last {WINDOW} steps were the yardstick")
    return StreamDiagnosis(
        length=len(data),
        steps=steps,
        since=[told[step] for step in steps],
        windowed=windowed and bool(steps),
        k_hat=[one.k_hat for one in judged],
        threshold=judged[0].threshold if judged else 0.7,
        shift=[one.shift for one in judged],
        trouble=trouble,
        verdict=verdict_on(trouble, len(data)) if judged or trouble else "no posterior",
        why="; ".join(reasons),
        running=running.tolist(),
        decoded=None if decoded is None else decoded.tolist(),
        probe_error=None if error is None else error.tolist(),
    )


def told_since(contexts: Sequence[Context | None]) -> tuple[list[int], bool]:
    """For each of T steps the first one of what an agent that is told of changes learns from, ``[T]``.

    That is the first step with the present context. Where the context changes all the time there is nothing to be
    told: then the last 20 steps count. The second value says whether they did anywhere.
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
        since: from :func:`told_since`, ``[T]``.
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


def _refuse_another_run(agent: Any, data: Transitions, latent: np.ndarray) -> None:
    sizes = (data.state.shape[1], data.action.shape[1], latent.shape[2])
    wanted = (agent.task.state_dim, agent.task.action_dim, agent.latent_dim)
    if sizes != wanted:
        raise UserError(
            f"the adaptation has states, actions and latents of sizes {sizes}, the run {wanted}: give the run that "
            "it was made with"
        )
    if latent.shape[1] < 25:
        raise UserError(f"k-hat needs at least 25 draws, and there are {latent.shape[1]}: run adapt again")


def _judge(
    agent: Any, data: Transitions, latent: np.ndarray, log_q: np.ndarray, since: int, step: int, temperature: float
) -> Importance:
    """Weigh the belief's draws ``[S, d]`` by the posterior of the transitions from ``since`` to ``step``."""
    draws, seen = torch.from_numpy(latent), data.select(torch.arange(since, step + 1))
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
