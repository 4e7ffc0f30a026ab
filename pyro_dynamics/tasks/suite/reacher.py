"""Gymnasium's Reacher."""

from torch import Tensor

from pyro_dynamics.tasks.task import Task


class ReacherTask(Task):
    """Bring the finger to the target, as in Reacher-v5.

    The observation (10) is [cosines of the two angles, their sines, target (x, y) in m, two rates, finger minus target
    (x, y) in m].
    """

    state_dim = 10
    action_dim = 2
    feature_dim = 10
    target_dim = 10
    state_names = (
        *("cos shoulder", "cos elbow", "sin shoulder", "sin elbow", "target x (m)", "target y (m)"),
        *("shoulder rate (rad/s)", "elbow rate (rad/s)", "finger off x (m)", "finger off y (m)"),
    )
    target_names = tuple(f"change of {name}" for name in state_names)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return -next_state[..., 8:10].norm(dim=-1) - action.square().sum(-1)
