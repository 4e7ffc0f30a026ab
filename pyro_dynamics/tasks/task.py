"""The contract of a task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import gymnasium
import torch
from torch import Tensor

from pyro_dynamics.tasks.spaces import Choices


class Task(ABC):
    """Features, targets, reward and termination of an environment.

    Every method works on tensors with any leading batch shape ``...``. States are the environment's observations,
    actions are in the environment's own units. The defaults suit an environment whose observation is its state:
    the network gets the observation and predicts its change.

    Attributes:
        state_dim: size ``S`` of an observation.
        action_dim: size ``A`` of an action.
        choices: which of its entries are one-hot codes of discrete actions, as (first entry, length); none by default.
        feature_dim: size ``F`` of the network's input from a state.
        target_dim: size ``T`` of the network's targets.
        can_terminate: whether :meth:`terminated` is ever true; planners skip the test where it is not.
        state_names: name and unit of each entry of an observation, for figures; empty if unnamed.
        target_names: the same of each target.
    """

    state_dim: int
    action_dim: int
    feature_dim: int
    target_dim: int
    can_terminate: bool = False
    choices: Choices = ()
    state_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()

    def features(self, state: Tensor) -> Tensor:
        """The network's input from a state: ``[..., S] -> [..., F]``."""
        return state

    def targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        """The network's targets of a transition: ``[..., S], [..., S] -> [..., T]``."""
        return next_state - state

    def next_state(self, state: Tensor, target: Tensor) -> Tensor:
        """The inverse of :meth:`targets`: ``[..., S], [..., T] -> [..., S]``."""
        return state + target

    @abstractmethod
    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        """Reward of a transition: ``[..., S], [..., A], [..., S] -> [...]``."""

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        """Whether the episode ends with this transition: a boolean tensor ``[...]``."""
        return torch.zeros(next_state.shape[:-1], dtype=torch.bool, device=next_state.device)

    def wrap(self, env: gymnasium.Env) -> gymnasium.Env:
        """The environment as this task needs it: with wrappers of its own around it, or as it is (the default)."""
        return env

    def fit(self, state: Tensor, next_state: Tensor) -> tuple[Tensor, Tensor] | None:
        """Learn from the data before every training: nothing by default.

        Args:
            state: all states so far, ``[N, S]``.
            next_state: their successors, ``[N, S]``.

        Returns:
            Where this has changed the units of the targets that networks were trained on: a shift and a factor, each
            ``[T]``; the new target is the shift plus the factor times the old. None where all are as they were.
        """
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """What :meth:`fit` has learned; a checkpoint holds it."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restore what :meth:`state_dict` returned."""

    def inputs(self, state: Tensor, action: Tensor) -> Tensor:
        """The network's inputs without the latent: features, then action, ``[..., F + A]``."""
        return torch.cat([self.features(state), action], dim=-1)

    @property
    def input_dim(self) -> int:
        """Size of :meth:`inputs`."""
        return self.feature_dim + self.action_dim
