"""Pendulum as in CaDM (Lee et al. 2020)."""

import torch
from torch import Tensor

from pyro_dynamics.tasks.suite.pendulum import PendulumTask


class CaDMPendulumTask(PendulumTask):
    """Gymnasium's, but that half the torque is squared for its cost."""

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        angle = torch.atan2(state[..., 1], state[..., 0])
        return -(angle.square() + 0.1 * state[..., 2].square() + 0.001 * (action[..., 0] / 2).square())
