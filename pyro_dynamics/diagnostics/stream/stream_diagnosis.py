"""Where along a stream of steps a belief went wrong, and when: k-hat, coverage, and the truth beside the belief.

The reference at a step is the posterior of the oracle-reset baseline, which returns to the prior when the true context
changes, and so learns from the steps since then alone (:mod:`pyro_dynamics.diagnostics.stream.reference`). Draws of
the belief are weighted by it: the weights show how far the belief is off, how wide it is, and, by k-hat, whether they
can be relied upon (Vehtari, Simpson, Gelman, Yao and Gabry 2024, arXiv:1507.02646). What none of its draws shows is
looked for with draws from elsewhere (:mod:`pyro_dynamics.diagnostics.stream.elsewhere`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.diagnostics.posterior.datatree import levelled
from pyro_dynamics.diagnostics.posterior.importance import Importance, importance
from pyro_dynamics.diagnostics.posterior.missed_mass import Missed, Proposal, proposals
from pyro_dynamics.diagnostics.stream.central_region import REGION, central_region
from pyro_dynamics.diagnostics.stream.checks import RECENT, Stream
from pyro_dynamics.diagnostics.stream.elsewhere import Better, explained_better, missed_at
from pyro_dynamics.diagnostics.stream.evidence import Evidence
from pyro_dynamics.diagnostics.stream.reference import (
    WINDOW,
    Reference,
    all_unknown,
    checkpoints,
    known_since,
    remembered_since,
)
from pyro_dynamics.diagnostics.stream.troubles import (
    REMEMBERED,
    SINCE_CHANGE,
    Trouble,
    far_states,
    low_coverage,
    not_finite,
    only_wide,
    outside_region,
    stale,
    uninformed,
    wrong_posterior,
)
from pyro_dynamics.diagnostics.verdict import Verdict, judge_stream, reasons_all_along, reasons_to_believe
from pyro_dynamics.environments import Context
from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import moments
from pyro_dynamics.inference.user_model import over_environments, population
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions


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
        threshold: below this k-hat the weights can be relied upon.
        shift: of the belief's median by the weights, in its own standard deviations, ``[n][d]``; too little where k-hat
            is above its threshold.
        covered: share of that posterior inside the belief's own 90 % interval, along the shift, ``[n]``.
        spread: the belief's width over that posterior's, ``[n][d]``.
        missed: how much of that posterior lies where the belief has no draws, after the last step; None where that was
            not looked for.
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
    covered: list[float]
    spread: list[list[float]]
    missed: Missed | None
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
    trouble: list[Trouble] = []
    decoded = error = None
    compared = windowed = False
    against = Against([], [], [], None)
    since: list[int] = []
    if latent is not None and log_q is not None:
        _refuse_another_run(agent, evidence.transitions, latent)
        trouble += not_finite(latent)
        if not trouble:
            since, windowed = known_since(evidence.contexts)
            if agent.guide.infers:  # else the belief is in closed form, and what is reported of it has no joint density
                reference, since, windowed = _reference(agent, evidence)
                against = _compare(reference, evidence, latent, log_q, since, every)
                trouble += against.trouble(evidence.beliefs, since)
                if better := _elsewhere(reference, evidence, latent, since):
                    trouble.append(stale(better, length))
            decoded, error, compared, outside = _beside_truth(evidence, latent, since)
            trouble += outside
    running = np.zeros(0) if evidence.coverage is None else running_coverage(evidence.coverage)
    trouble += low_coverage(running, length, None if evidence.beliefs is None else evidence.beliefs.pit)
    trouble += far_states(*agent.far_outside(evidence.transitions))
    trouble.sort(key=lambda one: (one.first, one.last))
    judged = against.judged
    parameters = evidence.parameters if compared else ()
    well = reasons_to_believe(against.steps, judged, against.missed)
    well += _left_out(evidence, since)
    well += [] if trouble else reasons_all_along(against.steps, judged, running, parameters, REGION)
    verdict = judge_stream(length, trouble, evidence.beliefs, latent is not None, well, only_wide(judged))
    if windowed and judged:
        verdict.reasons.append(f"where the context changed all the time, the last {WINDOW} steps were the reference")
    if evidence.drifts and latent is not None and not judged:
        verdict.reasons.append("the belief forgets, and no true context is known: it was compared with no posterior")
    return StreamDiagnosis(
        length=length,
        steps=against.steps,
        since=against.since,
        windowed=windowed and bool(judged),
        k_hat=[one.k_hat for one in judged],
        threshold=judged[0].threshold if judged else 0.7,
        shift=[one.shift for one in judged],
        covered=[one.covered for one in judged],
        spread=[one.spread for one in judged],
        missed=against.missed,
        trouble=trouble,
        verdict=verdict,
        running=running.tolist(),
        decoded=None if decoded is None else decoded.tolist(),
        probe_error=None if error is None else error.tolist(),
    )


@dataclass(frozen=True)
class Against:
    """A belief beside the posterior that it should be.

    Attributes:
        steps: the checkpoints.
        since: the first transition of that posterior at each.
        judged: what the weights say at each.
        missed: the mass where the belief has no draws, after the last.
        what: that posterior in words.
    """

    steps: list[int]
    since: list[int]
    judged: list[Importance]
    missed: Missed | None
    what: str = SINCE_CHANGE

    def trouble(self, beliefs: Stream | None, since: Sequence[int]) -> list[Trouble]:
        """All that is wrong there."""
        if not self.steps:
            return []
        found = wrong_posterior(self.steps, self.judged, since, self.what)
        if self.missed is not None and self.missed.counts:
            step = self.steps[-1]
            words = f"{self.missed.words}: importance weights of the belief's own draws do not see it"
            found.append(Trouble(step, step, "elsewhere", words))
        return found if beliefs is None else [*found, *uninformed(self.steps, self.judged, beliefs)]


def _reference(agent: Agent, evidence: Evidence) -> tuple[Reference, list[int], bool]:
    """What to compare the belief with, the first transition of it at each step, and whether that is a window."""
    if not all_unknown(evidence.contexts):
        since, windowed = known_since(evidence.contexts)
        reference = Reference(agent, evidence.transitions, evidence.temperature)
        return reference, remembered_since(since, evidence.begun), windowed
    reference = Reference(agent, evidence.transitions, evidence.temperature, evidence.forgetting_factor)
    return reference, remembered_since([0] * len(evidence.contexts), evidence.begun, evidence.window), False


def _compare(
    reference: Reference,
    evidence: Evidence,
    latent: np.ndarray,
    log_q: np.ndarray,
    since: Sequence[int],
    every: int,
) -> Against:
    """Weigh the belief's draws at checkpoints, and look for what they miss after the last step."""
    if evidence.drifts and all_unknown(evidence.contexts):
        return Against([], [], [], None)
    steps = checkpoints(since, every, latent.shape[1] * reference.agent.model.likelihood.members)
    if not steps:
        return Against([], [], [], None)
    judged = []
    for t in steps:
        log_p, of_belief = reference.log_joint(latent[t], since[t], t, evidence.members > 1), log_q[t].astype(float)
        if evidence.members > 1:
            log_p = levelled(log_p, of_belief, evidence.members)
        judged.append(importance(log_p, of_belief, latent[t].astype(float)))
    others, last = _other_places(reference, evidence), steps[-1]
    missed = missed_at(reference, latent[last].astype(float), others, since[last], last, np.random.default_rng(0))
    what = REMEMBERED if all_unknown(evidence.contexts) else SINCE_CHANGE
    return Against(steps, [since[t] for t in steps], judged, missed, what)


def _left_out(evidence: Evidence, since: Sequence[int]) -> list[str]:
    """What is to be said of a belief that rests on but some of the steps since the last change."""
    if all_unknown(evidence.contexts) or not since:
        return []
    change, last = known_since(evidence.contexts)[0][-1], len(since) - 1
    if since[-1] > last:
        return ["it rests on an earlier visit of this context too: it was compared with the truth alone"]
    if since[-1] == change:
        return []
    return [
        f"it rests on the last {last - since[-1] + 1} of the {last - change + 1} steps since the last change: the "
        "network explains the earlier ones by another latent"
    ]


def _other_places(reference: Reference, evidence: Evidence) -> list[Proposal]:
    """The prior, and the trained environments' posteriors."""
    with drawing_from(torch.Generator().manual_seed(0)), torch.no_grad():
        mean, covariance = moments(population(over_environments(reference.agent.model, 1)))
    trained, names = [], []
    if evidence.trained_means is not None and evidence.trained_covariances is not None:
        trained = list(
            zip(evidence.trained_means.astype(float), evidence.trained_covariances.astype(float), strict=True)
        )
        contexts = evidence.trained_contexts or range(len(trained))
        called = ", ".join(evidence.parameters)
        names = [f"the trained latent of {called} {label(context)}" for context in contexts]
    return proposals((mean[0].double().numpy(), covariance[0].double().numpy()), trained, names)


def _elsewhere(reference: Reference, evidence: Evidence, latent: np.ndarray, since: Sequence[int]) -> Better | None:
    """Whether other latents explain the last steps; needs to know how far apart trained ones are."""
    if evidence.beliefs is None or evidence.trained_covariances is None or len(evidence.trained_covariances) < 2:
        return None
    last = len(latent) - 1
    if since[last] > last:  # it rests on an earlier visit too
        return None
    places, spacing = _other_places(reference, evidence), evidence.beliefs.spacing
    own = latent[last].astype(float)
    return explained_better(reference, own, places, since[last], last, spacing, np.random.default_rng(1))


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
