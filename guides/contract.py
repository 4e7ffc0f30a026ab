"""The contract of a guide family."""

import pyro
from pyro.nn import PyroModule
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.transitions import Minibatch


class Guide(PyroModule):
    """A variational posterior q(e_k) for each of K environments, as a module.

    A family writes :meth:`posterior`, :meth:`frozen` and :meth:`for_environments`; everything else (offline and
    streaming inference, the controller, diagnostics) works with what they return.

    Args:
        environments: number K of environments.
        latent_dim: size d of each latent.
    """

    def __init__(self, environments: int, latent_dim: int) -> None:
        # Parameters live in the module and never in Pyro's global store, which leaks between models.
        with pyro.settings.context(module_local_params=True):
            super().__init__()
        self.environments = environments
        self.latent_dim = latent_dim

    def posterior(self) -> Distribution:
        """q(e): batch shape ``[K]``, event shape ``[d]``, with ``rsample`` and ``log_prob``."""
        raise NotImplementedError

    def frozen(self) -> Distribution:
        """:meth:`posterior` as it is now, as a constant: the prior of the next streaming update (Eq. 5)."""
        raise NotImplementedError

    def for_environments(self, environments: int) -> "Guide":
        """A fresh guide of this family at the prior N(0, I), over another number of environments."""
        raise NotImplementedError

    def forward(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor:
        """The Pyro guide: a site ``e`` in the plate ``environment``, beside the model's."""
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", self.posterior())  # type: ignore[arg-type]
