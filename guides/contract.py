"""The contract of a guide family."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.registry import Registry
from pyro_dynamics.transitions import Minibatch

WIDEST = 100.0
"""Standard deviation at which a guide may start; the prior's is 1, and far beyond it a training blows up."""
LogJoint = Callable[[Tensor], Tensor]
"""log p(e_k) + log p(data_k | e_k) + constant, ``[K]``, of latents ``[K, d]``: each of its own environment alone."""


def require_initial_scale(settings: Any) -> None:
    """Check the standard deviation at which a guide starts; raises :class:`UserError`."""
    require_positive(settings, "initial_scale")
    if settings.initial_scale > WIDEST:
        raise UserError(f"initial-scale must be at most {WIDEST:g} (the prior's is 1), not {settings.initial_scale:g}")


class Guide(PyroModule):
    """A variational posterior q(e_k) for each of K environments, as a module.

    A family writes :meth:`posterior` and :meth:`for_environments`; everything else (offline and streaming inference,
    the controller, diagnostics) works with what they return. The other methods are for families that need more.

    Parameters and buffers have the environments as their first dimension. Those that all environments share are named
    by :attr:`shared`, and stand still (``requires_grad`` false) in what :meth:`for_environments` returns: online, one
    environment must not move another.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
    """

    Config: ClassVar[type]
    """The frozen settings of the family."""
    has_density: ClassVar[bool] = True
    """Whether q can be the prior of the next streaming update (Eq. 5)."""
    reads_transitions: ClassVar[bool] = False
    """Whether q is computed from transitions; the constructor then takes ``transition_dim``, and
    :meth:`observe` takes the place of gradient steps online."""
    context_given: ClassVar[bool] = False
    """Whether q stands at the true contexts that it was given, and infers nothing: an oracle's."""
    shared: ClassVar[tuple[str, ...]] = ()
    """First parts of the names of parameters and buffers that all environments share."""

    def __init__(self, environments: int, latent_dim: int) -> None:
        # Parameters live in the module and never in Pyro's global store, which leaks between models.
        with pyro.settings.context(module_local_params=True):
            super().__init__()
        self.environments = environments
        self.latent_dim = latent_dim

    @property
    def infers(self) -> bool:
        """Whether there is a latent that is inferred: not of size 0, and not given."""
        return self.latent_dim > 0 and not self.context_given

    def posterior(self) -> Distribution:
        """q(e): batch shape ``[K]``, event shape ``[d]``, with ``rsample``, ``log_prob``, ``mean`` and ``stddev``."""
        raise NotImplementedError

    def for_environments(self, environments: int) -> Self:
        """A fresh guide of this family at the prior N(0, I), over another number of environments."""
        raise NotImplementedError

    def frozen(self) -> Distribution:
        """:meth:`posterior` as it is now, as a constant: the prior of the next streaming update (Eq. 5)."""
        return copy.deepcopy(self).requires_grad_(False).posterior()

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide: a site ``e`` in the plate ``environment``, beside the model's."""
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", self.posterior())  # type: ignore[arg-type]

    def set_context(self, contexts: Sequence[Any]) -> None:
        """Called with the true context of each of the K environments, which none but an oracle's guide looks at."""

    def match(self, mean: Tensor, covariance: Tensor) -> None:
        """Become the member of the family that is closest (in KL(q || .)) to a Gaussian.

        Args:
            mean: ``[K, d]``.
            covariance: ``[K, d, d]``.

        Raises:
            UserError: if the family is not Gaussian.
        """
        raise UserError(
            f"{type(self).__name__} cannot take over a Gaussian, which the Kalman and natural updates give: "
            "choose --update svi, or a Gaussian guide (diagonal, full-rank, low-rank, laplace)"
        )

    def finalize(self, log_joint: LogJoint) -> None:
        """Called when a fit is over, for families that are not finished by gradient steps alone."""

    def prepare(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        """Called before a training, with all data: inputs ``[N, I]``, targets ``[N, T]``, environment ``[N]``."""

    def observe(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        """Called with the transitions ``[B, ...]`` of a streaming update, before its gradient steps."""

    @torch.no_grad()
    def assign(self, slots: Tensor, source: "Guide", rows: Tensor) -> None:
        """Environments ``slots`` take over the state of environments ``rows`` of another guide of the family."""
        other = source.own_tensors()
        for name, value in self.own_tensors().items():
            value[slots] = other[name][rows]

    def own_tensors(self) -> dict[str, Any]:
        """Parameters and buffers that belong to one environment each, ``[K, ...]``."""
        tensors = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {name: value for name, value in tensors.items() if name.split(".")[0] not in self.shared}


GUIDES: Registry[Guide] = Registry(
    "guide", Guide, writes=(("posterior",), ("for_environments",)), takes=("environments", "latent_dim", "config")
)
"""The families by the name that a user types; :class:`KnownGuide` belongs to the oracle, and is chosen with it."""
