"""What is at hand about the belief along a stream of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyro_dynamics.diagnostics.stream.checks import Stream
from pyro_dynamics.environments import Context
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class Evidence:
    """T steps in one environment; what is not known is None, and not judged.

    Attributes:
        transitions: the T transitions, of environment 0.
        contexts: the true hidden parameter at each step, T of them; None where it is not known.
        temperature: power of the likelihood in the belief's updates.
        latent: draws of the belief after each step, ``[T, S, d]``; None for an agent without a latent.
        log_q: the belief's log density at them in nats, ``[T, S]``.
        coverage: share of the targets inside their 90 % intervals at each step, ``[T]``.
        beliefs: mean and standard deviation of the belief, and its predictions, beside what was trained on.
        trained_means: latent means of the environments that were trained on, ``[K, d]``; with them and with contexts
            that are numbers, the belief is read by the linear probe and compared to the truth.
        trained_contexts: their contexts, K of them.
        parameters: what the hidden parameters are called, for people.
        trained_covariances: covariances of the trained environments' posteriors, ``[K, d, d]``.
        begun: the first of the transitions that the belief rests on after each step, ``[T]``; after the step itself
            where it rests on an earlier visit of the context too, and None where it finds no changes.
        window: transitions that the belief remembers at most.
        forgetting_factor: by which the weight of a transition falls in it with each later one.
        drifts: whether it forgets in a way that no power of the likelihood stands for: where no context is known there
            is then no posterior to compare it with.
        members: how many beliefs there are about the environment: M where each member has its own, and the draws come
            in M equal blocks, with the log density of their own member's belief; else 1.
    """

    transitions: Transitions
    contexts: Sequence[Context | None]
    temperature: float
    latent: np.ndarray | None = None
    log_q: np.ndarray | None = None
    coverage: np.ndarray | None = None
    beliefs: Stream | None = None
    trained_means: np.ndarray | None = None
    trained_contexts: Sequence[Context] = ()
    parameters: Sequence[str] = ("context",)
    trained_covariances: np.ndarray | None = None
    begun: np.ndarray | None = None
    window: int | None = None
    forgetting_factor: float = 1.0
    drifts: bool = False
    members: int = 1
