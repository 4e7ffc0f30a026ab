"""What is believed about the environments, and how a new transition changes it."""

from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, Module, Settings, VariationalGuide
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.compiled.fx_graph import warn_once
from pyro_dynamics.inference.divergence import Diverged, is_sound, reporting_divergence
from pyro_dynamics.inference.guide_check import check_posterior
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.registry import Registry
from pyro_dynamics.transitions import Minibatch


@runtime_checkable
class Update(Protocol):
    """How a guide is fitted to prior times likelihood: gradient steps (Eq. 5), or an extended Kalman update."""

    def fit(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        prior: Distribution,
        batch: Minibatch,
        generator: torch.Generator,
    ) -> None:
        """Fit ``guide`` to ``prior`` times the likelihood of ``batch``."""


class Belief:
    """What is believed about K environments, with theta fixed, and how a transition changes it (Eq. 3 and Eq. 5).

    A kind of belief decides what is remembered: it writes :meth:`prior`, or :meth:`absorb` and :meth:`posterior`.

    Args:
        model: a Pyro model ``model(batch, prior)`` over K environments with a module ``likelihood``.
        guide: its guide, behind the contract of :mod:`pyro_dynamics.guides.contract`.
        update_rule: fits the guide after each transition.
        config: the belief's own settings.
        temperature: power of the likelihood in (0, 1]; below 1 it makes up for transitions that are correlated, and
            for an overconfident network.
    """

    Config: ClassVar[type]
    """The frozen settings of the belief."""
    leaves_memory_to_the_guide: ClassVar[bool] = False
    """Whether it goes with a guide that is computed from a memory of its own."""

    def __init__(
        self,
        model: DynamicsModel,
        guide: VariationalGuide,
        update_rule: Update,
        config: Settings | None = None,
        temperature: float = 1.0,
    ) -> None:
        if not 0 < temperature <= 1:
            raise UserError(f"temperature must lie in (0, 1], not {temperature}")
        if guide.reads_transitions and not self.leaves_memory_to_the_guide:
            raise UserError(f"{type(guide).__name__} remembers transitions itself: use it with --belief recursive")
        self.model, self.guide, self.update_rule, self.temperature = model, guide, update_rule, temperature
        self.config: Settings = config if config is not None else self.Config()
        self.set_prior()

    @property
    def infers(self) -> bool:
        """Whether there is anything that is inferred."""
        return self.guide.infers

    def set_prior(self) -> None:
        """The guide's posterior, as it is now, becomes what is believed before anything was seen."""
        self.base: Distribution = self.guide.frozen()
        self._base_state = clone_state(self.guide)

    def reset(self) -> None:
        """Return to what was believed at :meth:`set_prior`."""
        self.guide.load_state_dict(self._base_state)
        self.set_prior()

    def posterior(self) -> Distribution:
        """The belief as a constant: batch shape ``[K]``, event shape ``[d]``."""
        return self.guide.frozen()

    @property
    def changed(self) -> Tensor:
        """Where the last update found that the environment has changed, booleans ``[K]``: nowhere, by default."""
        return torch.zeros(self.guide.environments, dtype=torch.bool)

    def update(self, inputs: Tensor, targets: Tensor, environment: Tensor, generator: torch.Generator) -> None:
        """Bring transitions ``[B]`` into the beliefs, all at once: usually one for each environment.

        A transition after which a posterior would not be finite, or absurd, is left out: the last belief stays.

        Args:
            inputs: features and actions ``[B, F + A]``.
            targets: ``[B, T]``.
            environment: ``[B]``; environments that are not named keep their belief.
            generator: source of the guide's samples.

        Raises:
            UserError: if the guide has no density.
        """
        if not self.infers or len(environment) == 0:
            return
        if not self.guide.has_density:
            raise UserError(
                f"{type(self.guide).__name__} has no density and so cannot be the prior of a streaming update: "
                "train with another guide, for example --guide laplace"
            )
        if self._absorbed(inputs, targets, environment, generator):
            return
        alone = environment.unique()
        for rows in [environment == k for k in alone] if len(alone) > 1 else []:  # one must not stop the others
            self._absorbed(inputs[rows], targets[rows], environment[rows], generator)
        warn_once("an update of a belief gave no usable posterior and was left out: the last belief stays")

    def _absorbed(self, inputs: Tensor, targets: Tensor, environment: Tensor, generator: torch.Generator) -> bool:
        """Bring the transitions in, unless that leads to no usable posterior: then nothing is changed."""
        seen = torch.zeros(self.guide.environments, dtype=torch.bool)
        seen[environment] = True
        before = self.snapshot()
        try:
            with reporting_divergence("online"):
                self.absorb(inputs, targets, environment, seen, generator)
                sound = self.is_sound()
        except Diverged:
            sound = False
        if not sound:
            self.restore(before)
        return sound

    def is_sound(self) -> bool:
        """Whether the belief can be planned with."""
        return is_sound(self.guide)

    def snapshot(self) -> dict[str, Any]:
        """Copies of all that :meth:`absorb` may change."""
        return {"guide": clone_state(self.guide)}

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a :meth:`snapshot`."""
        self.guide.load_state_dict(state["guide"])

    def absorb(
        self, inputs: Tensor, targets: Tensor, environment: Tensor, seen: Tensor, generator: torch.Generator
    ) -> None:
        """:meth:`update` once it is known to make sense; ``seen`` ``[K]`` are the environments that are named."""
        prior = self.prior(self.guide.frozen(), seen)
        check_posterior(self, prior, self.guide.environments, self.guide.latent_dim, "prior")
        batch = whole_batch(inputs, targets, environment, self.model.likelihood.members, self.temperature)
        self.guide.observe(inputs, targets, environment)
        self.update_rule.fit(self.model, self.guide, prior, batch, generator)

    def prior(self, posterior: Distribution, seen: Tensor) -> Distribution:
        """The prior of the next update out of the last posterior; unchanged where nothing is ``seen`` ``[K]``."""
        raise NotImplementedError


def clone_state(module: Module) -> dict[str, Tensor]:
    """A copy of a module's parameters and buffers."""
    return {name: value.clone() for name, value in module.state_dict().items()}


BELIEFS: Registry[Belief] = Registry(
    "belief", Belief, writes=(("prior", "absorb"),), takes=("model", "guide", "update_rule", "config", "temperature")
)
"""The beliefs by the name that a user types."""
UPDATES: Registry[Update] = Registry(
    "update",
    Update,  # type: ignore[type-abstract]
    writes=(("fit",),),
    takes=("config",),
)
"""The updates by the name that a user types."""
