"""Gymnasium's InvertedPendulum, on MuJoCo."""

from torch import Tensor

from pyro_dynamics.tasks.task import Task


class InvertedPendulumTask(Task):
    """Keep the pole within 0.2 rad: 1 for each step that ends so, as in InvertedPendulum-v5.

    The observation (4) is [place of the cart in m, angle in rad, speed in m/s, rate in rad/s].
    """

    state_dim = 4
    action_dim = 1
    feature_dim = 4
    target_dim = 4
    can_terminate = True
    state_names = ("cart (m)", "angle (rad)", "speed (m/s)", "rate (rad/s)")
    target_names = tuple(f"change of {name}" for name in state_names)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return (~self.terminated(state, action, next_state)).to(next_state.dtype)

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return ~((next_state[..., 1].abs() <= 0.2) & next_state.isfinite().all(-1))
