"""A belief that follows changes: Bayesian online change-point detection (Adams and MacKay 2007)."""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torch.types import _size

from pyro_dynamics.errors import UserError, require_not_negative, require_positive
from pyro_dynamics.inference.beliefs.contract import BELIEFS, Belief, clone_state, leaving_alone
from pyro_dynamics.inference.beliefs.recall import Recall
from pyro_dynamics.inference.divergence import is_sound
from pyro_dynamics.inference.gaussians import is_gaussian
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.inference.user_model import over_environments
from pyro_dynamics.seeding import drawing_from

NEW_RUN_DRAWS = 4
"""To so many draws of the belief there is one of p_0, where draws are weighted."""
TENSORS = ("log_weight", "run_length", "is_recalled", "steps", "_changed")
"""What changes with the steps, beside the guides."""
RETURNS = 0.5
"""Of the changes, once a context is known: the share that returns to one of them."""


@dataclass(frozen=True)
class ChangepointConfig:
    """What changes are expected.

    Attributes:
        hazard: probability of a change at each step.
        hypotheses: how many runs are carried, each with a posterior of its own.
        spacing: steps between two moments at which a new run may begin.
        patience: steps for which a young run is kept, whatever its probability: it needs some to prove itself.
        recalled: how many contexts that were left are remembered, so that a return is recognised; 0 for none.
        most_nats: by which one transition can speak against a run: an outlier, which no run explains, says less. 0 for
            no bound.
    """

    hazard: float = 0.002
    hypotheses: int = 8
    spacing: int = 4
    patience: int = 20
    recalled: int = 2
    most_nats: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self, "hypotheses", "spacing")
        require_not_negative(self, "patience")
        if not self.most_nats >= 0:
            raise UserError(f"most-nats must be 0 (no bound) or more, not {self.most_nats}")
        if self.recalled < 0:
            raise UserError(f"recalled must be 0 (none) or more, not {self.recalled}")
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
    probable run that has had its chance, and at the contexts that were left before (:class:`.Recall`). The belief is
    the mixture over hypotheses. They are further environments to model and guide, so that all of them are updated in
    one call: hypothesis h of belief k is number k H + h. The guide itself stays where it was: it is p_0.
    """

    Config = ChangepointConfig
    config: ChangepointConfig

    def set_prior(self) -> None:
        super().set_prior()
        beliefs, places = self.guide.environments, self.config.recalled
        self.runs = self.config.hypotheses + places
        self.many = self.guide.for_environments(beliefs * self.runs)
        everyone = torch.arange(beliefs)
        self.many.assign(everyone * self.runs, self.guide, everyone)
        self.log_weight = torch.full((beliefs, self.runs), -math.inf)
        self.log_weight[:, 0] = 0.0
        self.run_length = torch.zeros(beliefs, self.runs, dtype=torch.long)
        self.is_recalled = torch.zeros(beliefs, self.runs, dtype=torch.bool)
        self.steps = torch.zeros(beliefs, dtype=torch.long)
        self._changed = torch.zeros(beliefs, dtype=torch.bool)
        self.recall = Recall(self.guide, places, self.runs, self.members) if places else None

    @property
    def changed(self) -> Tensor:
        """Where a younger run took the place of a settled one as the most probable, with the last update."""
        return self._changed[:: self.members]

    @property
    def rests_on(self) -> Tensor:
        recalled = self.is_recalled.gather(1, self._best()[:, None]).squeeze(1)
        return self._length().masked_fill(recalled, 0)[:: self.members]

    def _length(self) -> Tensor:
        """The length of the most probable run, ``[K]``."""
        return self.run_length.gather(1, self._best()[:, None]).squeeze(1)

    def joint(self) -> Distribution:
        return HypothesisMixture(self.log_weight, self.many.frozen())

    def ahead(self) -> Distribution:
        """With the hazard: at p_0, where the coming step begins a new run (Adams and MacKay 2007)."""
        return self.over_members(WithNewRun(self.joint(), self.base, self.config.hazard))

    def snapshot(self) -> dict[str, Any]:
        held = {name: getattr(self, name).clone() for name in TENSORS}
        recall = {} if self.recall is None else {"recall": self.recall.state_dict()}
        return {"many": clone_state(self.many), **held, **recall}

    def restore(self, state: dict[str, Any]) -> None:
        self.many.load_state_dict(state["many"])
        for name in TENSORS:
            setattr(self, name, state[name])
        if self.recall is not None:
            self.recall.load_state_dict(state["recall"])

    def is_sound(self) -> bool:
        return is_sound(self.many) and not bool(self.log_weight.isnan().any())

    def leaving_alone(self, unseen: Tensor) -> AbstractContextManager[None]:
        return leaving_alone(self.many, unseen.repeat_interleave(self.runs))

    def absorb(
        self, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: torch.Generator
    ) -> None:
        self._begin_runs(seen)
        batch = self.batch(inputs, targets, environment, self.runs)
        prior = self.many.frozen()
        model = over_environments(self.model, self.many.environments)  # now: whoever owns it may have changed it
        self.update_rule.fit(model, self.many, prior, batch, generator)
        with torch.no_grad(), drawing_from(generator):
            posterior = self.many.posterior()
            # At an optimum that is a Gaussian the two differ by the same everywhere: one place says it.
            at_mean = getattr(self.update_rule, "finds_optimum", False) and is_gaussian(posterior)
            places = posterior.mean[None] if at_mean else posterior.sample((8,))
            evidence = torch.stack(
                [log_joint(model, prior, batch, place) - posterior.log_prob(place) for place in places]
            ).mean(0)
        # A change is the environment's: its members share the weights, by the mean of what each finds.
        shared = evidence.view(-1, self.members, self.runs).mean(1).repeat_interleave(self.members, 0)
        present = shared.masked_fill(self.log_weight.isneginf(), -math.inf)
        bound = self.config.most_nats or math.inf
        shared = shared.clamp(min=present.amax(1, keepdim=True) - bound)
        before = self._length()
        weight = (self.log_weight + shared).log_softmax(1)
        self.log_weight = torch.where(seen[:, None], weight, self.log_weight)
        self._changed = seen & (before >= self.config.patience) & (self._length() < before)
        self.run_length += seen[:, None].long()
        self.steps += seen.long()
        lasted = (seen & (self._length() == self.config.patience)).nonzero().squeeze(1)
        if self.recall is not None and len(lasted):
            self.recall.remember(lasted, self._best()[lasted], self.many)

    def _best(self) -> Tensor:
        """The most probable run, ``[K]``."""
        return self.log_weight.argmax(1)

    def _begin_runs(self, seen: Tensor) -> None:
        """Begin runs where the environment was before, and, in environments whose turn it is, at p_0."""
        begun = seen & (self.steps > 0)
        if self.recall is not None:
            returning = (begun & self.recall.known.any(1)).nonzero().squeeze(1)
            if len(returning):
                self._settle_recalled(returning)
                self._recall_runs(returning)
        index = (begun & (self.steps % self.config.spacing == 0)).nonzero().squeeze(1)
        if not len(index):
            return
        change = 1 - (1 - self.config.hazard) ** self.config.spacing  # at one of the steps since the last moment
        best, slot = self._best()[index], self._least_probable()[index]
        self.log_weight[index] += math.log1p(-change)
        known = 0 if self.recall is None else self.recall.known[index].sum(1)
        share = torch.as_tensor(known).clamp(max=1) * RETURNS
        self.log_weight[index, slot] = math.log(change) + torch.log1p(-share)
        self.run_length[index, slot] = 0
        self.is_recalled[index, slot] = False
        if self.recall is not None:
            self.recall.begin(index, slot, self.many, best)
        self.many.assign(index * self.runs + slot, self.guide, index)

    def _least_probable(self) -> Tensor:
        """The slot that a new run may take, ``[K]``."""
        settled = self.run_length >= self.config.patience
        # An empty place first; else the least probable settled run, but never the most probable of all.
        order = self.log_weight.masked_fill(~settled & self.log_weight.isfinite(), math.inf)
        order[torch.arange(len(order)), self._best()] = math.inf
        return order[:, : self.config.hypotheses].argmin(1)

    def _settle_recalled(self, index: Tensor) -> None:
        """A recalled run that is the most probable becomes one like the others: its slot is for the next return."""
        index = index[self._best()[index] >= self.config.hypotheses]
        if self.recall is None or not len(index):
            return
        old, new = self._best()[index], self._least_probable()[index]
        self.many.assign(index * self.runs + new, self.many, index * self.runs + old)
        self.recall.move(index, old, new)
        for tensor in (self.log_weight, self.run_length, self.is_recalled):
            tensor[index, new] = tensor[index, old]
        self.log_weight[index, old] = -math.inf

    def _recall_runs(self, index: Tensor) -> None:
        """Begin a run at each known context, with the weight of a return to it, unless one is there that has more."""
        assert self.recall is not None
        best = self._best()[index]
        fresh = math.log(self.config.hazard * RETURNS) - self.recall.known[index].sum(1).log()
        for place in range(self.recall.places):
            slot = self.config.hypotheses + place
            begins = self.recall.known[index, place] & ~(self.log_weight[index, slot] > fresh)
            rows, where = index[begins], torch.full((int(begins.sum()),), slot)
            self.log_weight[rows, slot] = fresh[begins]
            self.run_length[rows, slot] = 0
            self.is_recalled[rows, slot] = True
            self.recall.begin(rows, where, self.many, best[begins])
            self.many.assign(rows * self.runs + slot, self.recall.memory, rows * self.recall.places + place)


class WithNewRun(Distribution):
    """(1 - h) q + h p_0: what is believed of the coming step, at which a run may begin.

    Args:
        posterior: q, batch shape ``[K]``.
        base: p_0, of the same shape.
        hazard: h.
    """

    arg_constraints = {}  # noqa: RUF012  # torch's own convention

    def __init__(self, posterior: Distribution, base: Distribution, hazard: float) -> None:
        super().__init__(posterior.batch_shape, posterior.event_shape, validate_args=False)
        self.posterior, self.base, self.hazard = posterior, base, hazard

    def sample(self, sample_shape: _size = ()) -> Tensor:
        shape = torch.Size(sample_shape)
        begins = torch.rand(*shape, *self.batch_shape, 1) < self.hazard
        return torch.where(begins, self.base.sample(shape), self.posterior.sample(shape))

    def weighted_sample(self, draws: int) -> tuple[Tensor, Tensor]:
        """Draws of both parts ``[n, K, d]``, with log-weights ``[n, K]``: p_0 is rarely drawn, and may explain all."""
        few = -(-draws // NEW_RUN_DRAWS)
        latents = torch.cat([self.posterior.sample((draws,)), self.base.sample((few,))])
        weight = torch.tensor([(1 - self.hazard) / draws] * draws + [self.hazard / few] * few).log()
        return latents, weight[:, None].expand(latents.shape[:-1])

    def log_prob(self, value: Tensor) -> Tensor:
        stays = self.posterior.log_prob(value) + math.log1p(-self.hazard)
        return torch.logaddexp(stays, self.base.log_prob(value) + math.log(self.hazard))

    @property
    def mean(self) -> Tensor:
        return (1 - self.hazard) * self.posterior.mean + self.hazard * self.base.mean

    @property
    def variance(self) -> Tensor:
        parts = ((1 - self.hazard, self.posterior), (self.hazard, self.base))
        second = sum(share * (part.variance + part.mean.square()) for share, part in parts)
        return second - self.mean.square()


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
