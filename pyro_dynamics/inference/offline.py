"""Offline inference: theta and q(e) by stochastic variational inference on all data so far (Eq. 4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor, nn

from pyro_dynamics.errors import require_positive
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.randomness import drawing_from
from pyro_dynamics.transitions import Minibatch, shuffled_minibatches


@dataclass(frozen=True)
class OfflineConfig:
    """How the model is trained after each round.

    Attributes:
        learning_rate: of Adam on the network's weights.
        guide_learning_rate: of Adam on the guide's parameters.
        batch_size: rows B of each member in a minibatch.
        epochs: passes over all data in one training ("iterations" in the paper).
        min_steps: at least this many gradient steps in one training, by more epochs where the data is little. A
            latent wakes after some thousands of steps, and early rounds starve without.
        decay: let both rates fall linearly to nothing over the second half of each training, and start anew with the
            next. PETS keeps them; without the fall the noise of the last steps costs several nats a transition.
    """

    learning_rate: float = 1e-3
    guide_learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 10
    min_steps: int = 1
    decay: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "learning_rate", "guide_learning_rate", "batch_size", "epochs", "min_steps")


class OfflineInference:
    """Maximises the ELBO over theta and phi together; weights and Adam's state go on from training to training.

    Args:
        model: a Pyro model ``model(batch)`` with a module ``likelihood`` that has ``members``, ``fit_normaliser``
            and ``penalty``.
        guide: its Pyro guide.
        config: rates, batch size and epochs.
    """

    def __init__(self, model: Any, guide: nn.Module, config: OfflineConfig) -> None:
        self.model, self.guide, self.config = model, guide, config
        self.elbo = TraceMeanField_ELBO(max_plate_nesting=2)(model, guide)
        self.optimiser = torch.optim.Adam(
            [
                {"params": list(model.parameters()), "lr": config.learning_rate},
                {"params": [p for p in guide.parameters() if p.requires_grad], "lr": config.guide_learning_rate},
            ],
            fused=True,
        )

    def loss(self, batch: Minibatch) -> Tensor:
        """The negative ELBO of all N transitions, estimated from a minibatch, in nats."""
        return self.elbo(batch)

    def step(self, batch: Minibatch) -> float:
        """One gradient step on (negative ELBO) / N + penalty; returns the ELBO estimate in nats for each transition."""
        self.optimiser.zero_grad()
        loss = self.loss(batch) / batch.total
        (loss + self.model.likelihood.penalty()).backward()
        self.optimiser.step()
        return -loss.item()

    def train(
        self,
        inputs: Tensor,
        targets: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> float:
        """Refit the input normaliser, then go over the data for ``config.epochs`` epochs or more.

        Args:
            inputs: features and actions ``[N, F + A]``.
            targets: ``[N, T]``.
            environment: ``[N]``.
            generator: source of the shuffles and of the guide's samples.
            on_epoch: called with the epoch and its mean ELBO for each transition.

        Returns:
            The last epoch's mean ELBO in nats for each transition.
        """
        likelihood = self.model.likelihood
        likelihood.fit_normaliser(inputs)
        self.guide.prepare(inputs, targets, environment)
        mean = math.nan
        with pyro.settings.context(module_local_params=True), pyro.validation_enabled(False), drawing_from(generator):
            shuffles = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
            steps_an_epoch = math.ceil(len(environment) / self.config.batch_size)
            epochs = max(self.config.epochs, math.ceil(self.config.min_steps / steps_an_epoch))
            for epoch in range(epochs):
                batches = shuffled_minibatches(
                    inputs, targets, environment, likelihood.members, self.config.batch_size, shuffles
                )
                elbos = []
                for index, batch in enumerate(batches):
                    self._set_rates(done=(epoch + index / steps_an_epoch) / epochs)
                    elbos.append(self.step(batch))
                mean = sum(elbos) / len(elbos)
                if on_epoch:
                    on_epoch(epoch, mean)
        everything = whole_batch(inputs, targets, environment, likelihood.members)
        self.guide.settle(lambda latent: log_joint(likelihood, self.model.prior(), everything, latent))
        return mean

    def _set_rates(self, done: float) -> None:
        """The learning rates when the fraction ``done`` of a training is over."""
        share = min(1.0, 2 * (1 - done)) if self.config.decay else 1.0
        rates = (self.config.learning_rate, self.config.guide_learning_rate)
        for group, rate in zip(self.optimiser.param_groups, rates, strict=True):
            group["lr"] = share * rate
