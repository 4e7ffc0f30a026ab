"""Gymnasium's Ant."""

from torch import Tensor

from pyro_dynamics.tasks.suite.locomotion import LocomotionTask, names_with_rates

LEGS = ("front left", "front right", "back left", "back right")
JOINTS = tuple(f"{leg} {joint}" for leg in LEGS for joint in ("hip", "ankle"))


class AntTask(LocomotionTask):
    """Run towards +x without jumping or falling over, as in Ant-v5 without contact forces.

    The observation (28) is [mean speed, height in m, orientation as a quaternion (4), eight joint angles, six
    velocities of the torso, eight of the joints]. An episode ends where the height is not within 0.2 and 1 m.

    Args:
        control_cost: weight of the squared action.
        healthy_reward: for each step that ends healthy.
        ends: whether episodes end; where they do not, the bonus is always given.
    """

    state_dim = 28
    action_dim = 8
    feature_dim = 27
    target_dim = 28
    state_names, target_names = names_with_rates(
        ("height (m)", *(f"quaternion {axis}" for axis in "wxyz"), *(f"{joint} (rad)" for joint in JOINTS)),
        (
            *(f"speed {axis} (m/s)" for axis in "xyz"),
            *(f"turn rate {axis} (rad/s)" for axis in "xyz"),
            *(f"{joint} rate (rad/s)" for joint in JOINTS),
        ),
    )

    def __init__(self, control_cost: float = 0.5, healthy_reward: float = 1.0, ends: bool = True) -> None:
        self.control_cost, self.healthy_reward, self.can_terminate = control_cost, healthy_reward, ends

    def healthy(self, state: Tensor) -> Tensor:
        if not self.can_terminate:
            return super().healthy(state)
        return (state[..., 1] >= 0.2) & (state[..., 1] <= 1.0) & state.isfinite().all(-1)
