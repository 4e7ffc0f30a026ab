"""Gymnasium's Pendulum."""

import torch
from torch import Tensor

from pyro_dynamics.tasks.task import Task


class PendulumTask(Task):
    """Swing up and stay up.

    The observation (3) is [cos angle, sin angle, angular velocity in rad/s], with angle 0 upright. The network
    predicts the change of the angle itself and of the velocity, so that a predicted state stays on the circle.
    """

    state_dim = 3
    action_dim = 1
    feature_dim = 3
    target_dim = 2
    state_names = ("cos angle", "sin angle", "angular velocity (rad/s)")
    target_names = ("turn (rad)", "change of angular velocity (rad/s)")

    def targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        turn = torch.atan2(
            next_state[..., 1] * state[..., 0] - next_state[..., 0] * state[..., 1],
            next_state[..., 0] * state[..., 0] + next_state[..., 1] * state[..., 1],
        )
        return torch.stack([turn, next_state[..., 2] - state[..., 2]], dim=-1)

    def next_state(self, state: Tensor, target: Tensor) -> Tensor:
        cos, sin = state[..., 0], state[..., 1]
        turn_cos, turn_sin = target[..., 0].cos(), target[..., 0].sin()
        return torch.stack(
            [cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin, state[..., 2] + target[..., 1]], dim=-1
        )

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        angle = torch.atan2(state[..., 1], state[..., 0])
        torque = action[..., 0]
        return -(angle.square() + 0.1 * state[..., 2].square() + 0.001 * torque.square())
