"""Pyro's automatic guides: one of them for each environment, by name."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyro
import torch
from pyro import distributions
from pyro.infer import autoguide
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, kl_divergence

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides.contract import GUIDES, Guide, require_initial_scale
from pyro_dynamics.guides.inverse_autoregressive import InverseAutoregressive
from pyro_dynamics.guides.path_gradient import PathGradient
from pyro_dynamics.transitions import Minibatch

KINDS = (
    "AutoDiagonalNormal",
    "AutoNormal",
    "AutoMultivariateNormal",
    "AutoLowRankMultivariateNormal",
    "AutoIAFNormal",
)
"""Pyro's automatic guides that have a density which can be evaluated anywhere, as a streaming prior must."""

NO_DENSITY = {
    "AutoDelta": "is a point and has no density: choose --guide point",
    "AutoLaplaceApproximation": "is a point until it is converted: choose --guide laplace",
    "AutoNormalizingFlow": "needs a transform, which has no name: choose AutoIAFNormal, or --guide flow",
}
"""Those that people ask for and do not get here, and what they want instead."""


@dataclass(frozen=True)
class AutoConfig:
    """Which automatic guide, and where training starts.

    Attributes:
        kind: name of a class of ``pyro.infer.autoguide``: one of AutoDiagonalNormal, AutoNormal,
            AutoMultivariateNormal, AutoLowRankMultivariateNormal, AutoIAFNormal.
        initial_scale: standard deviation of q(e_k) before the first training; AutoIAFNormal has no such setting, and
            starts wherever its random weights put it, near N(0, I).
    """

    kind: str = "AutoDiagonalNormal"
    initial_scale: float = 0.1

    def __post_init__(self) -> None:
        require_initial_scale(self)
        if not isinstance(self.kind, str):
            name = getattr(self.kind, "__name__", type(self.kind).__name__)
            raise UserError(
                f"kind must be the name of an automatic guide, not an object: give {name!r}. A guide that is made "
                "already, over a model of its own, would be joint over environments; one is made for each of them"
            )
        if self.kind not in KINDS:
            known = f"choose one of {', '.join(KINDS)}"
            if not hasattr(autoguide, self.kind):
                raise UserError(f"Pyro has no automatic guide {self.kind!r}: {known}")
            reason = NO_DENSITY.get(self.kind, f"has no density that can be evaluated at any latent: {known}")
            raise UserError(f"{self.kind} {reason}")


@GUIDES.register("auto")
class AutoGuide(Guide):
    """q(e_k) is an automatic guide of its own for each environment, over a model with the one site e_k.

    An automatic guide over the whole model would be joint over all K x d latents: the posterior of one environment
    could not be separated, and an update of one would move the others.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
        config: which automatic guide, and where training starts.

    Raises:
        UserError: if ``config`` is something else, such as a guide.
    """

    Config = AutoConfig

    def __init__(self, environments: int, latent_dim: int, config: AutoConfig | None = None) -> None:
        super().__init__(environments, latent_dim)
        self.config = config or AutoConfig()
        if not isinstance(self.config, AutoConfig):
            raise UserError(
                f"AutoGuide takes AutoConfig(kind=...), not {type(config).__name__}: an automatic guide that is made "
                "already would be joint over environments"
            )
        self.members = nn.ModuleList(self._member() for _ in range(environments if latent_dim else 0))

    def _member(self) -> autoguide.AutoGuide:
        """An automatic guide over one latent."""
        start = {"init_scale": float(self.config.initial_scale), "init_loc_fn": autoguide.init_to_mean}
        with pyro.settings.context(module_local_params=True):
            make = getattr(autoguide, self.config.kind)
            settings = {} if self.config.kind == "AutoIAFNormal" else start
            member: autoguide.AutoGuide = make(_OneLatent(self.latent_dim), **settings)
            member()  # it has no parameters before its first call
        return member

    def posterior(self) -> Distribution:
        return _stack([cast(autoguide.AutoGuide, member) for member in self.members], self.environments)

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide: a site ``e`` in the plate ``environment``, beside the model's."""
        posterior = self.posterior()
        if isinstance(posterior, InverseAutoregressive):
            posterior = PathGradient(self, posterior)
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", posterior)  # type: ignore[arg-type]  # torch and Pyro distributions

    def frozen(self) -> Distribution:
        """:meth:`posterior` as a constant. An automatic guide must not be copied: ``deepcopy`` breaks the original."""
        with torch.no_grad():
            return self.posterior()  # stacked, which copies

    def for_environments(self, environments: int) -> "AutoGuide":
        """A fresh guide at the prior; kinds that have no setting for it are fitted to it, with draws that are fixed."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            fresh = type(self)(environments, self.latent_dim, replace(self.config, initial_scale=1.0))
            if self.latent_dim:
                fresh.to(next(self.parameters()))
                first, *others = fresh.members
                _fit_to_prior(cast(autoguide.AutoGuide, first))
                for other in others:
                    other.load_state_dict(first.state_dict())
        return fresh

    @torch.no_grad()
    def assign(self, slots: Tensor, source: Guide, rows: Tensor) -> None:
        taken = {name: value[rows] for name, value in source.own_tensors().items()}
        for place, slot in enumerate(slots.tolist() if self.members else ()):
            self.members[slot].load_state_dict({name: value[place] for name, value in taken.items()})

    def own_tensors(self) -> dict[str, Any]:
        """Parameters and buffers of all environments, ``[K, ...]``: copies, since each lives in a guide of its own."""
        states = [member.state_dict() for member in self.members]
        return {name: torch.stack([state[name] for state in states]) for name in (states[0] if states else ())}


class _OneLatent:
    """The model that an automatic guide is made for: e ~ N(0, I), ``[d]``."""

    def __init__(self, latent_dim: int) -> None:
        self.latent_dim = latent_dim

    def __call__(self) -> None:
        pyro.sample("e", distributions.Normal(torch.zeros(self.latent_dim), 1.0).to_event(1))


def _distribution(member: autoguide.AutoGuide) -> Distribution:
    """q(e) of one automatic guide, batch shape ``[]``."""
    if isinstance(member, autoguide.AutoNormal):
        independent: Distribution = distributions.Normal(member.locs.e, member.scales.e).to_event(1)
        return independent
    posterior: Distribution = member.get_posterior()
    return posterior


def _stack(members: Sequence[autoguide.AutoGuide], environments: int) -> Distribution:
    """One distribution out of K; Gaussians stay Gaussians, so that their divergences stay in closed form."""
    if not members:
        empty: Distribution = distributions.Normal(torch.zeros(environments, 0), 1.0).to_event(1)
        return empty
    if isinstance(members[0], autoguide.AutoIAFNormal):
        return InverseAutoregressive.of([member.transform[0] for member in members])
    each: list[Any] = [_distribution(member) for member in members]

    def stack(name: str) -> Tensor:
        return torch.stack([getattr(one, name) for one in each])

    if isinstance(each[0], Independent):
        independent: Distribution = distributions.Normal(stack("mean"), stack("stddev")).to_event(1)
        return independent
    if isinstance(each[0], MultivariateNormal):
        return distributions.MultivariateNormal(stack("loc"), scale_tril=stack("scale_tril"))
    return distributions.LowRankMultivariateNormal(stack("loc"), stack("cov_factor"), stack("cov_diag"))


def _fit_to_prior(member: autoguide.AutoGuide, steps: int = 300, samples: int = 64) -> None:
    """Bring an automatic guide to N(0, I), unless it is there already, by gradient steps on its divergence."""
    if _from_prior(_distribution(member), samples=4096) < 1e-2:
        return
    optimiser = torch.optim.Adam(member.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        _from_prior(_distribution(member), samples).backward()
        optimiser.step()
        schedule.step()


def _from_prior(q: Distribution, samples: int) -> Tensor:
    """KL(q || N(0, I)), in closed form or from samples."""
    prior = distributions.Normal(torch.zeros_like(q.sample()), 1.0).to_event(1)
    try:
        return kl_divergence(q, prior)
    except NotImplementedError:
        draws = q.rsample(torch.Size([samples]))
        estimate: Tensor = (q.log_prob(draws) - prior.log_prob(draws)).mean()
        return estimate
