"""What is believed about the environments, and how a new transition changes it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, Module, Settings, VariationalGuide
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import as_indices, as_rows
from pyro_dynamics.inference.beliefs.member_mixture import MemberMixture
from pyro_dynamics.inference.compiled.fx_graph import warn_once
from pyro_dynamics.inference.divergence import Diverged, is_sound, reporting_divergence
from pyro_dynamics.inference.guide_check import check_posterior, is_point
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.inference.user_model import over_environments
from pyro_dynamics.registry import Registry
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch


@runtime_checkable
class Update(Protocol):
    """How a guide is fitted to prior times likelihood: gradient steps (Eq. 5), or a step of another kind.

    One with a true ``finds_optimum`` leaves a Gaussian guide at the best of its family, where its evidence is the same
    wherever it is taken.
    """

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

    A kind of belief decides what is remembered: it writes :meth:`prior`, or :meth:`absorb` and :meth:`joint`.

    The paper has one latent for all M members of an ensemble. A belief for each member lets every network say which
    latent explains what was seen in its own terms: their disagreement then shows in the belief, as an equal mixture
    over members. To model and guide they are M K environments, where number k M + m sees member m alone.

    Args:
        model: a Pyro model ``model(batch, prior)`` over K environments with a module ``likelihood``.
        guide: its guide, behind the contract of :mod:`pyro_dynamics.guides.contract`.
        update_rule: fits the guide after each transition.
        config: the belief's own settings.
        temperature: power of the likelihood in (0, 1]; below 1 it makes up for transitions that are correlated, and
            for an overconfident network.
        per_member: whether each member of the ensemble has a belief of its own.
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
        per_member: bool = False,
    ) -> None:
        if not 0 < temperature <= 1:
            raise UserError(f"temperature must lie in (0, 1], not {temperature}")
        if guide.reads_transitions and not self.leaves_memory_to_the_guide:
            raise UserError(f"{type(guide).__name__} remembers transitions itself: use it with --belief recursive")
        if guide.reads_transitions and per_member:
            raise UserError(f"{type(guide).__name__} has one memory for all members: use it with --belief-per ensemble")
        self.update_rule, self.temperature = update_rule, temperature
        self.environments = guide.environments
        self.members = model.likelihood.members if per_member and guide.infers else 1
        """How many beliefs there are about each environment."""
        self.trained, self.guide, self.model = guide, guide, model
        if self.members > 1:
            self.guide = guide.for_environments(self.members * guide.environments)
            self.model = over_environments(model, self.guide.environments)
        self.config: Settings = config if config is not None else self.Config()
        self.set_prior()

    @property
    def infers(self) -> bool:
        """Whether there is anything that is inferred."""
        return self.guide.infers

    def set_prior(self) -> None:
        """The guide's posterior, as it is now, becomes what is believed before anything was seen."""
        if self.members > 1:
            everyone = torch.arange(self.guide.environments)
            self.guide.assign(everyone, self.trained, everyone // self.members)
        self.base: Distribution = self.guide.frozen()
        self._base_state = clone_state(self.guide)

    def reset(self) -> None:
        """Return to what was believed at :meth:`set_prior`."""
        self.guide.load_state_dict(self._base_state)
        self.set_prior()

    def posterior(self) -> Distribution:
        """The belief as a constant: batch shape ``[K]``, event shape ``[d]``."""
        return self.over_members(self.joint())

    def ahead(self) -> Distribution:
        """The belief about the coming step, which plans and predictions are made with: by then e may have changed."""
        return self.posterior()

    def joint(self) -> Distribution:
        """The beliefs of all members: batch shape ``[K]``, or ``[K M]`` where each has its own."""
        return self.guide.frozen()

    def over_members(self, joint: Distribution) -> Distribution:
        """The equal mixture over members, batch shape ``[K]``."""
        return MemberMixture(joint, self.members) if self.members > 1 else joint

    @property
    def changed(self) -> Tensor:
        """Where the last update found that the environment has changed, booleans ``[K]``: nowhere, by default."""
        return torch.zeros(self.environments, dtype=torch.bool)

    @property
    def rests_on(self) -> Tensor | None:
        """How many of the last transitions the belief mostly rests on, ``[K]``; None where it finds no changes.

        0 where it rests on an earlier visit of the environment's context too.
        """
        return None

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
        kind = next((part.dtype for part in self.guide.parameters()), torch.float32)
        inputs = as_rows(inputs, None, "inputs", finite=False, dtype=kind)
        targets = as_rows(targets, None, "targets", finite=False, dtype=kind)
        environment = as_indices(environment, len(inputs), self.environments)
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
        seen = torch.zeros(self.environments, dtype=torch.bool)
        seen[environment] = True
        seen = seen.repeat_interleave(self.members)
        before = self.snapshot()
        try:
            with reporting_divergence("online"), self.leaving_alone(~seen):
                self.absorb(inputs, targets, environment, seen, generator)
                sound = self.is_sound()
        except Diverged:
            sound = False
        if not sound:
            self.restore(before)
        return sound

    def leaving_alone(self, unseen: Tensor) -> AbstractContextManager[None]:
        """While transitions come in, these environments ``[K]`` keep their belief bit for bit."""
        return leaving_alone(self.guide, unseen)

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
        """:meth:`update` once it is known to make sense.

        ``seen`` are the environments that are named, ``[K]``, or ``[K M]`` where each member has its own belief.
        """
        with drawing_from(generator):
            prior = self.prior(self.guide.frozen(), seen)
        check_posterior(self, prior, self.guide.environments, self.guide.latent_dim, "prior")
        if is_point(prior):
            raise UserError(
                f"{type(self).__name__}.prior() is a Delta, which has no density: give a distribution with one"
            )
        batch = self.batch(inputs, targets, environment)
        self.guide.observe(inputs, targets, environment)
        self.update_rule.fit(self.model, self.guide, prior, batch, generator)

    def prior(self, posterior: Distribution, seen: Tensor) -> Distribution:
        """The prior of the next update out of the last posterior; unchanged where nothing is ``seen`` ``[K]``."""
        raise NotImplementedError

    def batch(self, inputs: Tensor, targets: Tensor, environment: Tensor, copies: int = 1) -> Minibatch:
        """Transitions ``[B, ...]`` of environments ``[B]`` for the guide's own environments.

        Args:
            inputs: ``[B, F + A]``.
            targets: ``[B, T]``.
            environment: ``[B]``.
            copies: of each belief, all of which see the same: copy h of belief j is number j ``copies`` + h.
        """
        row = torch.arange(len(environment)).repeat_interleave(copies)
        batch = whole_batch(
            inputs[row], targets[row], environment[row], self.model.likelihood.members, self.temperature
        )
        index, total = batch.environment, batch.total
        if self.members > 1:  # each row counts in full for its own member's belief, not as one of M
            index, total = index * self.members + torch.arange(self.members)[:, None], total * self.members
        copy = torch.arange(copies).repeat(len(environment))
        return replace(batch, environment=index * copies + copy, total=total)


@contextmanager
def leaving_alone(guide: VariationalGuide, rows: Tensor) -> Iterator[None]:
    """What environments ``rows`` ``[K]`` of the guide hold is put back afterwards, bit for bit.

    An update computes all K of them at once, and so those that nothing was seen of too: rounding, and the steps of an
    optimiser that count the divergence alone, would move them a little each time.
    """
    slots = rows.nonzero().squeeze(1)
    kept = _Kept({name: value[slots].clone() for name, value in guide.own_tensors().items()} if len(slots) else {})
    yield
    if len(slots):
        guide.assign(slots, kept, torch.arange(len(slots)))  # type: ignore[arg-type]  # it is read as a guide is


@dataclass(frozen=True)
class _Kept:
    """Rows of a guide."""

    rows: dict[str, Tensor]

    def own_tensors(self) -> dict[str, Tensor]:
        return self.rows


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
