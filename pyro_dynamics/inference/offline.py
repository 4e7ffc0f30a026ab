"""Offline inference: theta and q(e) by stochastic variational inference on all data so far (Eq. 4)."""

import copy
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor
from tqdm import tqdm

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError, require_positive, require_rate
from pyro_dynamics.inference.collapse_prevention import LatentSite, check_movable, kl_weight, move_apart
from pyro_dynamics.inference.compiled.compiled_gradients import CompiledGradients
from pyro_dynamics.inference.divergence import Diverged, is_finite, is_sound, reporting_divergence
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.inference.natural_update import can_be_polished, move_to_optimum
from pyro_dynamics.parameters import frozen
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch, shuffled_minibatches

RETRIES = 3
"""How often a training that diverges begins again."""
SLOWER = 0.1
"""Each time at this share of the rates before."""
WORSE = 1e3
"""A training diverges whose ELBO falls this many times below the size of its first epoch's."""
FARTHEST = 100.0
"""Standard deviation by which the guide's means may be moved apart."""


@dataclass(frozen=True)
class OfflineConfig:
    """How the model is trained after each round.

    Attributes:
        learning_rate: of Adam on the network's weights.
        guide_learning_rate: of Adam on the guide's parameters.
        batch_size: rows B of each member in a minibatch.
        epochs: passes over all data in one training ("iterations" in the paper).
        min_steps: at least this many gradient steps in one training, by more epochs where the data is little. A
            latent becomes active after some thousands of steps, and early rounds are too short for it without.
        lr_decay: let both rates fall linearly to nothing over the second half of each training, and start anew with the
            next. PETS keeps them; without the fall the noise of the last steps costs several nats per transition.
        kl_warm_up: against collapse: the fraction of each training, up to 1, over which the weight of the divergence
            KL(q || p) rises linearly from 0 to 1; 0 for full weight at once, as in the paper. See
            docs/results/collapse.md.
        free_nats: against collapse: the divergence of each environment counts only above this many nats.
        scale_noise: before the first training the predicted noise and its bounds are put in units of each target's
            spread; without, as in PETS, they are in the target's own units, which for small targets is far too much.
        compiled: take the gradients by one compiled graph: the same to float32 accuracy, and faster, after a first call
            of some ten seconds. For every guide but amortized ones, without kl_warm_up and free_nats, for a model with
            no ``forward`` or ``prior`` of its own; needs a C++ compiler. Else it changes nothing. On in the presets for
            long work, `cpu` and `realtime`.
        init_mean_std: against collapse: before the first training the guide's means are moved apart at random, by this
            standard deviation. Needs a Gaussian guide.
        batch_environments: each minibatch has rows of about so many environments, for a guide that computes q(e_k) from
            the minibatch (amortized); 0 for rows of all alike, or of 4 where such a guide learns from an environment of
            its own for each episode: of very many each would have a single row to be inferred from and explained.
        polish: at the end of each training a Gaussian guide is moved to the optimum of its family, theta fixed, by at
            most this many natural-gradient steps, each a pass over all data; 0 for none, as in the paper. Gradient
            steps leave it over-dispersed: Adam's second moments remember the first, long moves. Other guides, and
            models with a ``forward`` of their own, stay as they are.
    """

    learning_rate: float = 1e-3
    guide_learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 10
    min_steps: int = 1
    lr_decay: bool = False
    kl_warm_up: float = 0.0
    free_nats: float = 0.0
    init_mean_std: float = 0.0
    compiled: bool = False
    scale_noise: bool = False
    polish: int = 0
    batch_environments: int = 0

    def __post_init__(self) -> None:
        require_rate(self, "learning_rate", "guide_learning_rate")
        require_positive(self, "batch_size", "epochs", "min_steps")
        if not 0 <= self.kl_warm_up <= 1:  # NaN compares false and is refused too
            raise UserError(f"kl-warm-up is a fraction of a training, from 0 (off) to 1, not {self.kl_warm_up}")
        for name in ("free_nats", "init_mean_std", "polish", "batch_environments"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name.replace('_', '-')} must be 0 (off) or more, not {getattr(self, name)}")
        if self.init_mean_std > FARTHEST:
            raise UserError(
                f"init-mean-std must be at most {FARTHEST:g} (the prior's deviation is 1), not {self.init_mean_std:g}"
            )

    def sizes(self, rows: int) -> tuple[int, int]:
        """How many epochs a training on N transitions has, and how many gradient steps an epoch."""
        steps = math.ceil(rows / self.batch_size)
        return max(self.epochs, math.ceil(self.min_steps / steps)), steps


class OfflineInference:
    """Maximises the ELBO over theta and phi together; weights and Adam's state are kept from training to training.

    Args:
        model: a Pyro model ``model(batch)`` with a module ``likelihood`` that has ``members``, ``fit_normaliser``,
            ``penalty`` and ``weight_decays``.
        guide: its Pyro guide.
        config: rates, batch size, epochs and remedies against collapse.

    Raises:
        UserError: if the means shall be moved apart and the guide cannot take over a Gaussian.
    """

    def __init__(self, model: DynamicsModel, guide: VariationalGuide, config: OfflineConfig) -> None:
        self.model, self.guide, self.config = model, guide, config
        # Both are modules, which a protocol cannot say.
        self.elbo = TraceMeanField_ELBO(max_plate_nesting=2)(model, guide)  # type: ignore[arg-type]
        # Adam adds the gradient of the weights' decay: through the loss it would cost a tenth of a step.
        decays = model.likelihood.weight_decays()
        decayed = groupby(model.parameters(), lambda parameter: decays.get(parameter, 0.0))
        groups = [{"params": list(group), "weight_decay": decay} for decay, group in decayed]
        guide_group = {"params": [p for p in guide.parameters() if p.requires_grad], "weight_decay": 0.0}
        self.optimiser = torch.optim.Adam([*groups, guide_group], fused=True)
        self._slower = 1.0
        self._set_rates(done=0.0)
        can_be_compiled = not (config.kl_warm_up or config.free_nats or guide.reads_transitions)
        self.compiled = (
            CompiledGradients(model, guide, config.batch_size) if config.compiled and can_be_compiled else None
        )
        if config.init_mean_std and guide.infers:  # there is nothing to move for generalists, specialists and oracles
            check_movable(guide)

    def forget_moments(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Let Adam begin anew with parameters whose gradients are of another size from now on."""
        for parameter in parameters:
            self.optimiser.state.pop(parameter, None)

    def loss(self, batch: Minibatch) -> Tensor:
        """The negative ELBO of all N transitions, estimated from a minibatch, in nats."""
        negative: Tensor = self.elbo(batch)
        return negative

    def step(self, batch: Minibatch, done: float = 1.0) -> float:
        """One gradient step on (negative ELBO + relief) / N + penalty + decay, when ``done`` of the training is over.

        The relief is that of the remedies against collapse, nothing by default.

        Returns:
            The estimate of the ELBO itself, without relief, in nats for each transition.
        """
        self.optimiser.zero_grad()
        loss = self.compiled(batch) if self.compiled is not None else None
        if loss is None:
            loss = self._backward(batch, done)
        self.optimiser.step()
        return -loss.item()

    def _backward(self, batch: Minibatch, done: float) -> Tensor:
        """The gradients of (negative ELBO + relief) / N + penalty by Pyro; returns the negative ELBO / N."""
        weight, free_nats = kl_weight(done, self.config.kl_warm_up), self.config.free_nats
        with LatentSite() if (weight < 1 or free_nats) and self.guide.infers else nullcontext() as site:
            loss = self.loss(batch) / batch.total
        (loss if site is None else loss + site.relief(weight, free_nats) / batch.total).backward()
        penalty = self.model.likelihood.penalty()
        if penalty.requires_grad:
            penalty.backward()
        return loss

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
        self.model.likelihood.fit_normaliser(inputs)
        # Once in a run: Adam's state is empty before the first step ever, and is part of a checkpoint.
        if self.config.scale_noise and not self.optimiser.state and hasattr(self.model.likelihood, "scale_noise"):
            self.model.likelihood.scale_noise(targets)
        return self._fit(inputs, targets, environment, generator, on_epoch)

    def refit(
        self,
        inputs: Tensor,
        targets: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> float:
        """The same for the guide alone, with theta as it is."""
        with frozen(self.model):
            return self._fit(inputs, targets, environment, generator, on_epoch)

    def _fit(
        self,
        inputs: Tensor,
        targets: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        on_epoch: Callable[[int, float], None] | None,
    ) -> float:
        """The training, from its start again at lower rates where it diverges.

        Raises:
            UserError: if it diverges at the lowest rates too; then all is as it was before the training.
        """
        good = self._state()
        for attempt in range(RETRIES + 1):
            self._slower = SLOWER**attempt
            try:
                return self._attempt(inputs, targets, environment, generator, on_epoch)
            except Diverged as fault:
                self._restore(good)
                rate = SLOWER ** (attempt + 1)
                again = f"try {attempt + 2} of {RETRIES + 1} begins where it began, at {rate:g} of the rates"
                if attempt < RETRIES:
                    tqdm.write(f"warning: training diverged ({fault}): {again}", file=sys.stderr)
                else:
                    raise UserError(
                        f"training diverged {RETRIES + 1} times, at last with {self._slower:g} of its rates ({fault}); "
                        "weights and beliefs are as they were before it. Look for wild numbers in the data, or train "
                        "anew with lower --offline.learning-rate and --offline.guide-learning-rate"
                    ) from None
        raise AssertionError("unreachable")

    def _state(self) -> tuple[dict[str, Any], ...]:
        """Copies of weights, guide and Adam's state."""
        return tuple(copy.deepcopy(part.state_dict()) for part in (self.model, self.guide, self.optimiser))

    def _restore(self, state: tuple[dict[str, Any], ...]) -> None:
        model, guide, optimiser = state
        self.model.load_state_dict(model)
        self.guide.load_state_dict(guide)
        self.load_optimiser(copy.deepcopy(optimiser))

    def _attempt(
        self,
        inputs: Tensor,
        targets: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        on_epoch: Callable[[int, float], None] | None,
    ) -> float:
        likelihood = self.model.likelihood
        self.guide.prepare(inputs, targets, environment)
        # Adam's state is empty before the first step ever, and is part of a checkpoint: a resumed run knows it too.
        if self.config.init_mean_std and self.guide.infers and not self.optimiser.state:
            move_apart(self.guide, self.config.init_mean_std, generator)
        mean, first = math.nan, math.nan
        with pyro.settings.context(module_local_params=True), pyro.validation_enabled(False), drawing_from(generator):
            shuffles = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
            epochs, steps_an_epoch = self.config.sizes(len(environment))
            for epoch in range(epochs):
                size, some = self.config.batch_size, self.config.batch_environments
                batches = shuffled_minibatches(inputs, targets, environment, likelihood.members, size, shuffles, some)
                elbos = []
                for index, batch in enumerate(batches):
                    done = (epoch + index / steps_an_epoch) / epochs
                    self._set_rates(done)
                    elbos.append(self._sound_step(batch, done, epoch))
                mean = sum(elbos) / len(elbos)
                first = first if epoch else mean
                if mean < first - WORSE * (1 + abs(first)):
                    raise Diverged(f"the ELBO fell from {first:.3g} to {mean:.3g} nats in epoch {epoch + 1}")
                if on_epoch:
                    on_epoch(epoch, mean)
        everything = whole_batch(inputs, targets, environment, likelihood.members)
        with reporting_divergence("at the end"):
            self._polish(everything)
            self.guide.finalize(lambda latent: log_joint(self.model, self.model.prior(), everything, latent))
        if not (is_finite(self.model) and is_sound(self.guide)):  # the last step may have been the one too far
            raise Diverged("weights or beliefs are not finite at the end")
        return mean

    def polish(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        """Move the guide to the best of its family for these networks and data ``[N, ...]``, if that is asked for."""
        self._polish(whole_batch(inputs, targets, environment, self.model.likelihood.members))

    def _polish(self, everything: Minibatch) -> None:
        if self.config.polish and can_be_polished(self.model, self.guide):
            move_to_optimum(self.model, self.guide, self.model.prior(), everything, self.config.polish, to_mode=False)

    def _sound_step(self, batch: Minibatch, done: float, epoch: int) -> float:
        """:meth:`step`; raises :class:`Diverged` where its ELBO is not finite."""
        with reporting_divergence(f"in epoch {epoch + 1}"):
            elbo = self.step(batch, done)
        if not math.isfinite(elbo):
            raise Diverged(f"the ELBO is {elbo} in epoch {epoch + 1}")
        return elbo

    def _set_rates(self, done: float) -> None:
        """The learning rates when the fraction ``done`` of a training is over."""
        share = self._slower * (min(1.0, 2 * (1 - done)) if self.config.lr_decay else 1.0)
        *groups, guide_group = self.optimiser.param_groups
        for group in groups:
            group["lr"] = share * self.config.learning_rate
        guide_group["lr"] = share * self.config.guide_learning_rate

    def load_optimiser(self, state: Mapping[str, Any]) -> None:
        """Take over Adam's moments from its ``state_dict``; rates and decays are the configuration's."""
        self.optimiser.load_state_dict({**state, "param_groups": self.optimiser.state_dict()["param_groups"]})

    def continue_from(self, fewer: "OfflineInference") -> None:
        """Take over Adam's moments from a training over the first of these environments; the others have none yet."""
        own = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        state = fewer.optimiser.state_dict()
        moments = {
            index: {name: _padded(value, own[index]) for name, value in entry.items()}
            for index, entry in state["state"].items()
        }
        self.load_optimiser({**state, "state": moments})


def _padded(moment: Tensor, parameter: Tensor) -> Tensor:
    """A moment ``[K, ...]`` for a parameter of more environments, with zeros for these; others as they are."""
    if moment.dim() != parameter.dim() or moment.shape == parameter.shape:
        return moment.clone()
    padded = torch.zeros_like(parameter)
    padded[: len(moment)] = moment
    return padded
