"""Gymnasium's Hopper."""

from torch import Tensor

from pyro_dynamics.tasks.suite.locomotion import LocomotionTask, names_with_rates

JOINTS = ("thigh", "leg", "foot")


class HopperTask(LocomotionTask):
    """Hop forward without falling, as in Hopper-v5.

    The observation (12) is [mean speed, height in m, pitch, three joint angles, six velocities]. An episode ends
    where the height is not above 0.7 m, the pitch not within 0.2 rad, or any other entry not within 100 (velocities
    are observed clipped at 10, so that one beyond 100 is not observed; it does not occur).
    """

    state_dim = 12
    action_dim = 3
    feature_dim = 11
    target_dim = 12
    can_terminate = True
    control_cost = 1e-3
    healthy_reward = 1.0
    state_names, target_names = names_with_rates(
        ("height (m)", "pitch (rad)", *(f"{joint} (rad)" for joint in JOINTS)),
        ("speed (m/s)", "vertical speed (m/s)", "pitch rate (rad/s)", *(f"{joint} rate (rad/s)" for joint in JOINTS)),
    )

    def healthy(self, state: Tensor) -> Tensor:
        upright = (state[..., 1] > 0.7) & (state[..., 2].abs() < 0.2)
        return upright & (state[..., 2:].abs() < 100).all(-1)
