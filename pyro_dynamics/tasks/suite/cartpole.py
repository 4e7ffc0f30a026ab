"""CartPole."""

import math

import torch
from torch import Tensor

from pyro_dynamics.tasks.task import Task

FALLEN = 12 * 2 * math.pi / 360
"""Angle in rad beyond which the pole has fallen."""


class CartPoleTask(Task):
    """Keep the pole within 12 degrees and the cart within 2.4 m: 1 for each step, the last one too.

    The observation (4) is [place of the cart in m, speed in m/s, angle in rad, rate in rad/s].

    Args:
        full_force: whether the action is only a direction; the network's input is then its sign.
    """

    state_dim = 4
    action_dim = 1
    feature_dim = 4
    target_dim = 4
    can_terminate = True
    state_names = ("cart (m)", "speed (m/s)", "angle (rad)", "rate (rad/s)")
    target_names = tuple(f"change of {name}" for name in state_names)

    def __init__(self, full_force: bool = False) -> None:
        self.full_force = full_force

    def inputs(self, state: Tensor, action: Tensor) -> Tensor:
        if self.full_force:
            action = torch.where(action > 0, 1.0, -1.0).to(action.dtype)
        return super().inputs(state, action)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.ones_like(next_state[..., 0])

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return ~((next_state[..., 0].abs() <= 2.4) & (next_state[..., 2].abs() <= FALLEN))
