"""Streaming inference: after each transition the last posterior becomes the prior, with theta fixed (Eq. 5)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor, nn

from pyro_dynamics.errors import require_positive
from pyro_dynamics.randomness import drawing_from
from pyro_dynamics.transitions import Minibatch


@dataclass(frozen=True)
class StreamingConfig:
    """How the belief is updated; 60 steps at five times the offline rate are the paper's.

    Attributes:
        steps: gradient steps after each transition.
        learning_rate: of Adam, whose state starts anew with each transition: kept, it makes the standard deviation
            too large.
        samples: draws of e for each gradient, all in one vectorised call.
    """

    steps: int = 60
    learning_rate: float = 5e-3
    samples: int = 16

    def __post_init__(self) -> None:
        require_positive(self, "steps", "learning_rate", "samples")


class StreamingInference:
    """Posterior-as-prior updates of K beliefs at once.

    The guide is warm-started: it stands at the last posterior, which is also the prior.

    Args:
        model: a Pyro model ``model(batch, prior)`` with a module ``likelihood`` that has ``members``.
        guide: its Pyro guide, behind the contract of :mod:`pyro_dynamics.guides.contract`.
        config: steps, rate and samples.
    """

    def __init__(self, model: Any, guide: Any, config: StreamingConfig) -> None:
        self.model, self.guide, self.config = model, guide, config
        estimator = TraceMeanField_ELBO(num_particles=config.samples, vectorize_particles=True, max_plate_nesting=2)
        self.elbo = estimator(model, guide)

    def update(self, inputs: Tensor, targets: Tensor, environment: Tensor, generator: torch.Generator) -> None:
        """Bring transitions ``[B]`` into the beliefs, all at once: usually one for each environment.

        Args:
            inputs: features and actions ``[B, F + A]``.
            targets: ``[B, T]``.
            environment: ``[B]``; environments that are not named keep their belief.
            generator: source of the guide's samples.
        """
        if self.guide.latent_dim == 0 or len(environment) == 0:
            return
        members = self.model.likelihood.members
        batch = Minibatch(
            inputs.expand(members, -1, -1),
            targets.expand(members, -1, -1),
            environment.expand(members, -1),
            total=len(environment),
        )
        prior = self.guide.frozen()
        optimiser = torch.optim.Adam(self.guide.parameters(), lr=self.config.learning_rate, fused=True)
        with (
            pyro.settings.context(module_local_params=True),
            pyro.validation_enabled(False),
            drawing_from(generator),
            _fixed(self.model),
        ):
            for _ in range(self.config.steps):
                optimiser.zero_grad()
                self.elbo(batch, prior).backward()
                optimiser.step()


@contextmanager
def _fixed(module: nn.Module) -> Iterator[None]:
    """Spare the gradients of theta, which Eq. 5 holds fixed."""
    free = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in free:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in free:
            parameter.requires_grad_(True)
