"""The paper's inference online: some gradient steps on the ELBO of the newest data, theta fixed (Eq. 5)."""

from dataclasses import dataclass

import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch.distributions import Distribution
from torch.nn import Parameter

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import require_positive, require_rate
from pyro_dynamics.inference.beliefs.contract import UPDATES
from pyro_dynamics.inference.compiled.compiled_update import fit_compiled
from pyro_dynamics.inference.log_joint import log_joint
from pyro_dynamics.parameters import frozen
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch


@dataclass(frozen=True)
class SVIUpdateConfig:
    """How the guide is fitted online; 60 steps at five times the offline rate are the paper's.

    Attributes:
        steps: gradient steps after each transition.
        learning_rate: of Adam, whose state starts anew with each transition: kept, it makes the standard deviation
            too large.
        samples: draws of e for each gradient, all in one vectorised call.
        compiled: run all steps as one compiled call: the same to float32 accuracy, and several times faster, after a
            first one that takes seconds (a flow's a minute). For Gaussian guides, mixtures and flows, and a model with
            no ``forward`` or ``prior`` of its own; needs a C++ compiler. Else it changes nothing.
    """

    steps: int = 60
    learning_rate: float = 5e-3
    samples: int = 16
    compiled: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "steps", "samples")
        require_rate(self, "learning_rate")


@UPDATES.register("svi")
class SVIUpdate:
    """Moves a guide down the negative ELBO; it starts where it stands, usually at the last posterior.

    Args:
        config: steps, rate and samples.
    """

    Config = SVIUpdateConfig

    def __init__(self, config: SVIUpdateConfig) -> None:
        self.config = config

    def fit(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        prior: Distribution,
        batch: Minibatch,
        generator: torch.Generator,
    ) -> None:
        """Fit ``guide`` to ``prior`` times the likelihood of ``batch``.

        Args:
            model: a Pyro model ``model(batch, prior)`` over K environments with a module ``likelihood``.
            guide: its guide, behind the contract of :mod:`pyro_dynamics.guides.contract`.
            prior: batch shape ``[K]``; where it has no closed-form divergence its ``log_prob`` may lack a constant.
            batch: the data; ``total`` is the number of rows times the temperature of the likelihood.
            generator: source of the guide's samples.
        """
        free = [parameter for parameter in guide.parameters() if parameter.requires_grad]
        done = self.config.compiled and free and fit_compiled(self.config, model, guide, prior, batch, generator)
        if free and not done:
            self._by_pyro(model, guide, prior, batch, generator, free)
        guide.finalize(lambda latent: log_joint(model, prior, batch, latent))

    def _by_pyro(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        prior: Distribution,
        batch: Minibatch,
        generator: torch.Generator,
        free: list[Parameter],
    ) -> None:
        """The steps on Pyro's ELBO, which takes any guide."""
        elbo = TraceMeanField_ELBO(self.config.samples, max_plate_nesting=2, vectorize_particles=True)
        of_guide = elbo(model, guide)  # type: ignore[arg-type]  # both are modules, which a protocol cannot say
        optimiser = torch.optim.Adam(free, lr=self.config.learning_rate, fused=True)
        with (
            pyro.settings.context(module_local_params=True),
            pyro.validation_enabled(False),
            drawing_from(generator),
            frozen(model),  # theta is fixed in Eq. 5: spare its gradients
        ):
            for _ in range(self.config.steps):
                optimiser.zero_grad()
                of_guide(batch, prior).backward()
                optimiser.step()
