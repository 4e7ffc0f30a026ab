"""A belief that follows changes: Bayesian online change-point detection (Adams and MacKay 2007)."""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torch.types import _size

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief, clone_state, leaving_alone
from pyro_dynamics.inference.divergence import is_sound
from pyro_dynamics.inference.log_joint import log_joint, whole_batch
from pyro_dynamics.inference.user_model import over_environments
from pyro_dynamics.seeding import drawing_from


@dataclass(frozen=True)
class ChangepointConfig:
    """What changes are expected.

    Attributes:
        hazard: probability of a change at each step.
        hypotheses: how many runs are carried, each with a posterior of its own.
        spacing: steps between two moments at which a new run may begin.
        patience: steps for which a young run is kept, whatever its probability: it needs some to prove itself.
    """

    hazard: float = 0.002
    hypotheses: int = 8
    spacing: int = 4
    patience: int = 20

    def __post_init__(self) -> None:
        require_positive(self, "hypotheses", "spacing")
        if not 0 < self.hazard < 1:
            raise UserError(f"hazard must lie in (0, 1), not {self.hazard}")
        if self.hypotheses < self.patience // self.spacing + 2:
            raise UserError(
                f"{self.hypotheses} hypotheses are too few: {self.patience} steps of patience with a new run every "
                f"{self.spacing} need {self.patience // self.spacing + 2}"
            )


@BELIEFS.register("changepoint")
class ChangepointBelief(Belief):
    """Carries H hypotheses about when the present run began; each has seen the transitions since then.

    A hypothesis is weighed by the evidence of each transition, for which the ELBO of its update stands: exact where
    the guide holds the exact posterior. New runs begin at p_0 with the hazard's weight, in the place of the least
    probable run that has had its chance. The belief is the mixture over hypotheses. They are further environments to
    model and guide, so that all of them are updated in one call: environment k, hypothesis h is number k H + h. The
    guide itself stays where it was: it is p_0, from which new runs begin.
    """

    Config = ChangepointConfig
    config: ChangepointConfig

    def set_prior(self) -> None:
        super().set_prior()
        count, environments = self.config.hypotheses, self.guide.environments
        self.many = self.guide.for_environments(environments * count)
        everyone = torch.arange(environments)
        self.many.assign(everyone * count, self.guide, everyone)
        self.log_weight = torch.full((environments, count), -math.inf)
        self.log_weight[:, 0] = 0.0
        self.run_length = torch.zeros(environments, count, dtype=torch.long)
        self.steps = torch.zeros(environments, dtype=torch.long)
        self._changed = torch.zeros(environments, dtype=torch.bool)

    @property
    def changed(self) -> Tensor:
        """Where a younger run took the place of a settled one as the most probable, with the last update."""
        return self._changed

    def _length(self) -> Tensor:
        """The length of the most probable run, ``[K]``."""
        return self.run_length.gather(1, self.log_weight.argmax(1, keepdim=True)).squeeze(1)

    def posterior(self) -> Distribution:
        return HypothesisMixture(self.log_weight, self.many.frozen())

    def snapshot(self) -> dict[str, Any]:
        held = {name: getattr(self, name).clone() for name in ("log_weight", "run_length", "steps", "_changed")}
        return {"many": clone_state(self.many), **held}

    def restore(self, state: dict[str, Any]) -> None:
        self.many.load_state_dict(state["many"])
        for name in ("log_weight", "run_length", "steps", "_changed"):
            setattr(self, name, state[name])

    def is_sound(self) -> bool:
        return is_sound(self.many) and not bool(self.log_weight.isnan().any())

    def leaving_alone(self, unseen: Tensor) -> AbstractContextManager[None]:
        return leaving_alone(self.many, unseen.repeat_interleave(self.config.hypotheses))

    def absorb(
        self, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: torch.Generator
    ) -> None:
        count = self.config.hypotheses
        self._begin_runs(seen)
        rows = (environment[:, None] * count + torch.arange(count)).flatten()
        batch = whole_batch(
            inputs.repeat_interleave(count, 0),
            targets.repeat_interleave(count, 0),
            rows,
            self.model.likelihood.members,
            self.temperature,
        )
        prior = self.many.frozen()
        model = over_environments(self.model, self.many.environments)  # now: whoever owns it may have changed it
        self.update_rule.fit(model, self.many, prior, batch, generator)
        with torch.no_grad(), drawing_from(generator):
            posterior = self.many.frozen()
            evidence = torch.stack(
                [log_joint(model, prior, batch, draw) - posterior.log_prob(draw) for draw in posterior.sample((8,))]
            ).mean(0)
        before = self._length()
        weight = (self.log_weight + evidence.view_as(self.log_weight)).log_softmax(1)
        self.log_weight = torch.where(seen[:, None], weight, self.log_weight)
        self._changed = seen & (before >= self.config.patience) & (self._length() < before)
        self.run_length += seen[:, None].long()
        self.steps += seen.long()

    def _begin_runs(self, seen: Tensor) -> None:
        """Put a new run in the place of the least probable one, in environments whose turn it is."""
        due = seen & (self.steps > 0) & (self.steps % self.config.spacing == 0)
        if not due.any():
            return
        settled = self.run_length >= self.config.patience
        # An empty place first; else the least probable settled run, but never the most probable of all.
        order = self.log_weight.masked_fill(~settled & self.log_weight.isfinite(), math.inf)
        order[torch.arange(len(order)), self.log_weight.argmax(1)] = math.inf
        slot = order.argmin(1)
        change = 1 - (1 - self.config.hazard) ** self.config.spacing  # at one of the steps since the last moment
        index = due.nonzero().squeeze(1)
        self.log_weight[index] += math.log1p(-change)
        self.log_weight[index, slot[index]] = math.log(change)
        self.run_length[index, slot[index]] = 0
        self.many.assign(index * self.config.hypotheses + slot[index], self.guide, index)


class HypothesisMixture(Distribution):
    """sum_h w_kh q_kh(e): batch shape ``[K]``, event shape ``[d]``.

    Args:
        log_weight: ``[K, H]``, normalised.
        parts: batch shape ``[K H]``.
    """

    arg_constraints = {}  # noqa: RUF012  # torch's own convention

    def __init__(self, log_weight: Tensor, parts: Distribution) -> None:
        super().__init__(log_weight.shape[:1], parts.event_shape, validate_args=False)
        self.log_weight, self.parts = log_weight, parts

    def sample(self, sample_shape: _size = ()) -> Tensor:
        draws = self.parts.sample(torch.Size(sample_shape)).unflatten(-2, self.log_weight.shape)
        chosen = Categorical(logits=self.log_weight).sample(torch.Size(sample_shape))
        taken: Tensor = draws.take_along_dim(chosen[..., None, None], dim=-2).squeeze(-2)
        return taken

    def log_prob(self, value: Tensor) -> Tensor:
        repeated = value.repeat_interleave(self.log_weight.shape[1], dim=-2)
        parts = self.parts.log_prob(repeated).unflatten(-1, self.log_weight.shape)
        mixed: Tensor = (parts + self.log_weight).logsumexp(-1)
        return mixed

    @property
    def mean(self) -> Tensor:
        means = self.parts.mean.unflatten(0, self.log_weight.shape)
        mean: Tensor = (self.log_weight.exp()[..., None] * means).sum(1)
        return mean

    @property
    def variance(self) -> Tensor:
        means = self.parts.mean.unflatten(0, self.log_weight.shape)
        variances = self.parts.stddev.square().unflatten(0, self.log_weight.shape)
        second = (self.log_weight.exp()[..., None] * (variances + means.square())).sum(1)
        variance: Tensor = second - self.mean.square()
        return variance
