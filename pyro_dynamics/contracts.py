"""What inference, control and the agent take a model and a guide to be: protocols, which any class may satisfy.

``HierarchicalModel`` satisfies :class:`DynamicsModel`, ``Guide`` satisfies :class:`VariationalGuide`; their docstrings
say what each method must do. Updates, beliefs and planners have contracts of their own, in ``inference/beliefs`` and
``control``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pyro_dynamics.transitions import Minibatch


class Settings(Protocol):
    """A frozen dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Module(Protocol):
    """What is used of ``torch.nn.Module``; a protocol cannot inherit from it."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> object: ...


class Likelihood(Module, Protocol):
    """The networks: inputs ``[..., M, B, F + A]`` and latents ``[..., M, B, d]`` to location and scale.

    It may have more, which is asked for by name: ``linearised`` and ``for_planning`` (faster forms), ``sample_targets``
    (draws of its own) and ``accelerator`` (where plans and updates are computed).
    """

    @property
    def members(self) -> int:
        """The number M of networks."""

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]: ...

    def fit_normaliser(self, inputs: Tensor) -> None:
        """Take over the statistics of all data ``[N, F + A]``."""

    def penalty(self) -> Tensor:
        """A regulariser, a scalar in nats per transition."""

    def weight_decays(self) -> dict[nn.Parameter, float]:
        """Adam's decay of each parameter that has one."""


class Linearisable(Protocol):
    """A likelihood that knows how it changes with the latent."""

    def linearised(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Location and scale, and their slopes in the latent: see :meth:`pyro_dynamics.models.Ensemble.linearised`."""


class DynamicsModel(Module, Protocol):
    """A Pyro model over K environments: see :class:`pyro_dynamics.models.HierarchicalModel`."""

    @property
    def likelihood(self) -> Likelihood:
        """The networks."""

    @property
    def environments(self) -> int:
        """The number K of environments."""

    @property
    def latent_dim(self) -> int:
        """The size d of each latent."""

    def __call__(self, batch: Minibatch, prior: Distribution | None = None) -> object: ...

    def prior(self) -> Distribution:
        """p(e): batch shape ``[K]``, event shape ``[d]``."""

    def observation(self, inputs: Tensor, latent: Tensor) -> Distribution:
        """p(delta | s, a, e): batch shape ``[..., M, B]``, event shape ``[T]``."""

    def for_environments(self, environments: int) -> Self:
        """The same model, its networks shared, over another number of environments."""


class VariationalGuide(Module, Protocol):
    """A posterior q(e_k) for each of K environments: see :class:`pyro_dynamics.guides.Guide`."""

    @property
    def environments(self) -> int:
        """The number K of environments."""

    @property
    def latent_dim(self) -> int:
        """The size d of each latent."""

    @property
    def infers(self) -> bool:
        """Whether there is a latent that is inferred."""

    @property
    def has_density(self) -> bool:
        """Whether q can be the prior of the next streaming update."""

    @property
    def reads_transitions(self) -> bool:
        """Whether q is computed from transitions."""

    @property
    def context_given(self) -> bool:
        """Whether q stands at the true contexts."""

    def __call__(self, batch: Minibatch, prior: Distribution | None = None) -> Tensor: ...

    def posterior(self) -> Distribution:
        """q(e): batch shape ``[K]``, event shape ``[d]``."""

    def frozen(self) -> Distribution:
        """The posterior as a constant."""

    def for_environments(self, environments: int) -> Self:
        """A fresh guide at N(0, I) over another number of environments."""

    def set_context(self, contexts: Sequence[Any]) -> None:
        """Take over the true context of each environment."""

    def match(self, mean: Tensor, covariance: Tensor) -> None:
        """Become the nearest to a Gaussian, ``[K, d]`` and ``[K, d, d]``."""

    def finalize(self, log_joint: Callable[[Tensor], Tensor]) -> None:
        """Called when a fit is over."""

    def prepare(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        """Called before a training, with all data."""

    def observe(self, inputs: Tensor, targets: Tensor, environment: Tensor) -> None:
        """Called with the transitions of a streaming update."""

    def assign(self, slots: Tensor, source: Self, rows: Tensor) -> None:
        """Environments ``slots`` take over the state of environments ``rows`` of another guide of the family."""

    def own_tensors(self) -> dict[str, Any]:
        """Parameters and buffers that belong to one environment each."""


class MadeOfNoise(Protocol):
    """A posterior that says how its draws are made: see :mod:`pyro_dynamics.inference.compiled.reparameterisation`."""

    def standard_noise(self, sample_shape: torch.Size) -> tuple[Tensor, ...]:
        """The tensors that ``rsample`` draws, in its order."""

    def from_noise(self, *noise: Tensor) -> Tensor:
        """What ``rsample`` makes of them."""
