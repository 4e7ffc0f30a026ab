"""When the present run began: Bayesian online change-point detection (Adams and MacKay 2007) over a few hypotheses."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pyro_dynamics.inference.beliefs.changepoint import ChangepointConfig


@dataclass(frozen=True)
class RunLengths:
    """The run-length posterior of K environments, each with H hypotheses; nothing is changed in place.

    Attributes:
        config: what changes are expected; None for one run that never ends.
        log_weight: of each hypothesis, ``[K, H]``, normalised; minus infinity for an empty place.
        length: steps that each has seen, ``[K, H]``.
        steps: of each environment, ``[K]``.
        changed: where a younger run took the place of a settled one as the most probable, with the last step, ``[K]``.
    """

    config: ChangepointConfig | None
    log_weight: Tensor
    length: Tensor
    steps: Tensor
    changed: Tensor

    @classmethod
    def fresh(cls, config: ChangepointConfig | None, environments: int) -> "RunLengths":
        """One run of no step in each environment."""
        count = 1 if config is None else config.hypotheses
        log_weight = torch.full((environments, count), -math.inf, dtype=torch.float64)
        log_weight[:, 0] = 0.0
        length = torch.zeros(environments, count, dtype=torch.long)
        return cls(config, log_weight, length, length[:, 0].clone(), torch.zeros(environments, dtype=torch.bool))

    def with_coming(self) -> Tensor:
        """Log weights of the runs at the COMING step, ``[K, H + 1]``: the last is that of one that begins with it.

        Predictions must be made with these, as a change may come with the very step that is predicted.
        """
        change = self._change()
        return torch.cat([self.log_weight + torch.log1p(-change)[:, None], change.log()[:, None]], 1)

    def begun(self, environment: Tensor) -> tuple["RunLengths", Tensor, Tensor]:
        """A new run in the place of the least probable one, where its turn is, before a step.

        Args:
            environment: which of the K make a step, ``[b]``.

        Returns:
            The run lengths; where new runs begin, ``[n]``; and their places among the hypotheses, ``[n]``.
        """
        seen = torch.zeros_like(self.changed)
        seen[environment] = True
        index = (seen & self._due()).nonzero().squeeze(1)
        if not len(index):
            return self, index, index
        assert self.config is not None
        # An empty place first; else the least probable settled run, but never the most probable of all.
        settled = self.length >= self.config.patience
        order = self.log_weight.masked_fill(~settled & self.log_weight.isfinite(), math.inf)
        order[torch.arange(len(order)), self.log_weight.argmax(1)] = math.inf
        place = order.argmin(1)[index]
        log_weight, length, change = self.log_weight.clone(), self.length.clone(), self._change()[index]
        log_weight[index] += torch.log1p(-change)[:, None]
        log_weight[index, place] = change.log()
        length[index, place] = 0
        return replace(self, log_weight=log_weight, length=length), index, place

    def absorbed(self, environment: Tensor, evidence: Tensor) -> "RunLengths":
        """After a step of environments ``[b]``, of which each hypothesis had a log evidence, ``[b, H]``."""
        before = self._longest()
        log_weight, length, steps = self.log_weight.clone(), self.length.clone(), self.steps.clone()
        log_weight[environment] = (log_weight[environment] + evidence).log_softmax(1)
        length[environment] += 1
        steps[environment] += 1
        after = replace(self, log_weight=log_weight, length=length, steps=steps)
        changed = torch.zeros_like(self.changed)
        patience = 0 if self.config is None else self.config.patience
        # The lengths grew by one with this step.
        changed[environment] = ((before >= patience) & (after._longest() <= before))[environment]
        return replace(after, changed=changed)

    def _due(self) -> Tensor:
        """Where a run may begin with the coming step, ``[K]``."""
        if self.config is None:
            return torch.zeros_like(self.changed)
        return (self.steps > 0) & (self.steps % self.config.spacing == 0)

    def _change(self) -> Tensor:
        """Probability of a change that the coming step would show, ``[K]``: with those that wait for a turn."""
        change = torch.zeros(len(self.steps), dtype=torch.float64)
        if self.config is not None:
            change += self.config.hazard
            change[self._due()] = 1 - (1 - self.config.hazard) ** self.config.spacing
        return change

    def _longest(self) -> Tensor:
        """The length of the most probable run, ``[K]``."""
        return self.length.gather(1, self.log_weight.argmax(1, keepdim=True)).squeeze(1)
