"""An encoder of recent transitions: inference by one forward pass, learned beforehand."""

import copy
import math
from dataclasses import dataclass
from itertools import pairwise

import pyro
import torch
from pyro import distributions, poutine
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.guides.contract import GUIDES, Guide
from pyro_dynamics.transitions import Minibatch

MOST_LOG_SCALE = math.log(10)
"""A transition says no more of a latent (with prior N(0, 1)) than noise of 0.1 would let it, and no less than 10."""


@dataclass(frozen=True)
class AmortizedConfig:
    """What is remembered, and the shape of the encoder.

    Attributes:
        window: number of transitions of each environment that q(e_k) is computed from; CaDM's is 10.
        hidden: width of each hidden layer.
    """

    window: int = 10
    hidden: tuple[int, ...] = (64, 64)

    def __post_init__(self) -> None:
        require_positive(self, "window")
        if any(width < 1 for width in self.hidden):
            raise UserError(f"hidden must be positive widths, not {self.hidden}")


@GUIDES.register("amortized")
class AmortizedGuide(Guide):
    """q(e_k) is proportional to N(e; 0, I) times N(e; mu(x_n), sigma(x_n)^2) for each of its last transitions x_n.

    The network (mu, sigma) is shared by all environments. The product of factors is PEARL's (Rakelly et al. 2019), the
    window CaDM's (Lee et al. 2020). Without transitions q is the prior, and their order makes no difference. Online
    there are no gradient steps: an update encodes the window, and all before is forgotten.

    Offline each minibatch is a small data set, all of which is encoded and explained: one divergence stands against as
    many rows as q rests on, so that q is as wide as these few rows leave it. With one divergence against all N rows, q
    would be as narrow as N rows allow, around a mean that rests on a few. Every ensemble member has rows of its own and
    a vote of 1/M; so have their factors.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: what is remembered, and the shape of the encoder.
        transition_dim: size R of a row, which is a transition's inputs and targets.
    """

    Config = AmortizedConfig
    reads_transitions = True
    shared = ("encoder", "row_mean", "row_scale")

    row_mean: Tensor
    row_scale: Tensor
    window: Tensor
    count: Tensor

    def __init__(
        self, environments: int, latent_dim: int, config: AmortizedConfig | None = None, *, transition_dim: int
    ) -> None:
        super().__init__(environments, latent_dim)
        config = config or AmortizedConfig()
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise((transition_dim, *config.hidden)):
            layers += [nn.Linear(n_in, n_out), nn.SiLU()]
        if latent_dim:
            last = nn.Linear((transition_dim, *config.hidden)[-1], 2 * latent_dim)
            with torch.no_grad():
                last.bias[latent_dim:] -= 0.5  # the factors' scale is about 0.3 at first, narrow as elsewhere
            layers.append(last)
        self.encoder = nn.Sequential(*layers)
        self.register_buffer("row_mean", torch.zeros(transition_dim))
        self.register_buffer("row_scale", torch.ones(transition_dim))
        self.register_buffer("window", torch.zeros(environments, config.window, transition_dim))
        self.register_buffer("count", torch.zeros(environments, dtype=torch.long))

    def posterior(self) -> Distribution:
        return self.encode(self.window, self.count)

    def for_environments(self, environments: int) -> "AmortizedGuide":
        guide = copy.deepcopy(self).requires_grad_(False)
        guide.environments = environments
        guide.window = self.window.new_zeros(environments, *self.window.shape[1:])
        guide.count = self.count.new_zeros(environments)
        return guide

    def encode(self, window: Tensor, count: Tensor, power: float = 1.0) -> Distribution:
        """q(e_k) of the first ``count`` ``[K]`` rows of each window ``[K, W, R]``, with factors to a power."""
        factors = self.encoder((window - self.row_mean) / self.row_scale)
        mean, raw = factors[..., : 2 * self.latent_dim].unflatten(-1, (2, self.latent_dim)).unbind(-2)
        given = torch.arange(window.shape[1], device=count.device) < count[:, None]
        precision = power * given[..., None] * torch.exp(-2 * MOST_LOG_SCALE * raw.tanh())
        total = 1 + precision.sum(1)
        posterior: Distribution = distributions.Normal((precision * mean).sum(1) / total, total.rsqrt()).to_event(1)
        return posterior

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide: a site ``e`` that is encoded from the minibatch."""
        members, size = batch.environment.shape
        rows = torch.cat([batch.inputs, batch.targets], -1).flatten(0, 1)
        environment = batch.environment.flatten()
        window, count = newest(rows, environment, self.environments, members * self.window.shape[1])
        # The model counts each row N / B times: so must the divergence, and more often yet where more rows are
        # explained than encoded.
        explained = environment.bincount(minlength=self.environments)
        times = batch.total / size * (explained / count.clamp(min=1)).clamp(min=1)
        with poutine.scale(scale=times), pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", self._encode_present(window, count, power=1 / members))  # type: ignore[arg-type]

    def _encode_present(self, window: Tensor, count: Tensor, power: float) -> Distribution:
        """:meth:`encode`, where most environments have no rows and are at the prior: the encoder skips these."""
        there = count.nonzero().squeeze(1)
        if 2 * len(there) > self.environments:
            return self.encode(window, count, power)
        found = self.encode(window[there], count[there], power)
        mean = window.new_zeros(self.environments, self.latent_dim).index_copy(0, there, found.mean)
        scale = window.new_ones(self.environments, self.latent_dim).index_copy(0, there, found.stddev)
        posterior: Distribution = distributions.Normal(mean, scale).to_event(1)
        return posterior

    @torch.no_grad()
    def prepare(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        rows = torch.cat([inputs, targets], -1)
        scale, mean = torch.std_mean(rows, dim=0, correction=0)
        self.row_mean.copy_(mean)
        self.row_scale.copy_(torch.where(scale < 1e-6, torch.ones_like(scale), scale))
        self._store(rows, environment)

    @torch.no_grad()
    def observe(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        # What is remembered, oldest first, and then what is new.
        given = torch.arange(self.window.shape[1], device=self.count.device) < self.count[:, None]
        owner = torch.arange(self.environments, device=self.count.device)[:, None].expand_as(given)
        rows, owner = self.window.flip(1)[given.flip(1)], owner[given]
        self._store(torch.cat([rows, torch.cat([inputs, targets], -1)]), torch.cat([owner, environment]))

    def _store(self, rows: Tensor, environment: Tensor) -> None:
        window, count = newest(rows, environment, self.environments, self.window.shape[1])
        self.window.copy_(window)
        self.count.copy_(count)


def newest(rows: Tensor, environment: Tensor, environments: int, length: int) -> tuple[Tensor, Tensor]:
    """The last ``length`` rows of each environment.

    Args:
        rows: ``[N, R]``, oldest first.
        environment: ``[N]``.
        environments: number K of environments.
        length: most rows W of one environment.

    Returns:
        The rows, newest first and then zeros, ``[K, W, R]``; and how many there are, ``[K]``.
    """
    order = environment.argsort(stable=True)
    present = environment.bincount(minlength=environments)
    owner = environment[order]
    newer = present.cumsum(0)[owner] - 1 - torch.arange(len(owner), device=owner.device)
    kept = newer < length
    window = rows.new_zeros(environments, length, rows.shape[1])
    window[owner[kept], newer[kept]] = rows[order[kept]]
    return window, present.clamp(max=length)
