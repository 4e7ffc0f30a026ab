"""The common part of locomotion tasks."""

import torch
from torch import Tensor

from pyro_dynamics.tasks.task import Task


class LocomotionTask(Task):
    """Run forward, and stay healthy: velocity reached, and a bonus while healthy, less the squared action.

    The first entry of an observation is the velocity over the last step in m/s
    (:class:`~pyro_dynamics.environments.mujoco.last_velocity.LastVelocity`). It is no input of the network, and is
    predicted absolutely; of the rest the change is predicted.

    Attributes:
        control_cost: weight of the squared action.
        healthy_reward: for each step that ends healthy.
    """

    control_cost: float
    healthy_reward: float = 0.0

    def features(self, state: Tensor) -> Tensor:
        return state[..., 1:]

    def targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        return torch.cat([next_state[..., :1], next_state[..., 1:] - state[..., 1:]], dim=-1)

    def next_state(self, state: Tensor, target: Tensor) -> Tensor:
        next_state = state + target
        next_state[..., 0] = target[..., 0]
        return next_state

    def healthy(self, state: Tensor) -> Tensor:
        """Whether the robot is healthy in states ``[..., S]``: ``[...]``."""
        return torch.ones(state.shape[:-1], dtype=torch.bool, device=state.device)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        bonus = self.healthy_reward * self.healthy(next_state)
        return next_state[..., 0] + bonus - self.control_cost * action.square().sum(-1)

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        if not self.can_terminate:
            return super().terminated(state, action, next_state)
        return ~self.healthy(next_state)


def names_with_rates(positions: tuple[str, ...], rates: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of an observation's entries, and of its targets: the last velocity, positions, then velocities."""
    states = ("mean speed (m/s)", *positions, *rates)
    return states, (states[0], *(f"change of {name}" for name in states[1:]))
