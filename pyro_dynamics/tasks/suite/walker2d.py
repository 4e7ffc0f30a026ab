"""Gymnasium's Walker2d."""

from torch import Tensor

from pyro_dynamics.tasks.suite.locomotion import LocomotionTask, names_with_rates

JOINTS = ("thigh", "leg", "foot", "left thigh", "left leg", "left foot")


class Walker2dTask(LocomotionTask):
    """Walk forward without falling, as in Walker2d-v5.

    The observation (18) is [mean speed, height in m, pitch, six joint angles, nine velocities]. An episode ends where
    the height is not within 0.8 and 2 m, or the pitch not within 1 rad.
    """

    state_dim = 18
    action_dim = 6
    feature_dim = 17
    target_dim = 18
    can_terminate = True
    control_cost = 1e-3
    healthy_reward = 1.0
    state_names, target_names = names_with_rates(
        ("height (m)", "pitch (rad)", *(f"{joint} (rad)" for joint in JOINTS)),
        ("speed (m/s)", "vertical speed (m/s)", "pitch rate (rad/s)", *(f"{joint} rate (rad/s)" for joint in JOINTS)),
    )

    def healthy(self, state: Tensor) -> Tensor:
        height, pitch = state[..., 1], state[..., 2]
        return (height > 0.8) & (height < 2.0) & (pitch.abs() < 1.0)
