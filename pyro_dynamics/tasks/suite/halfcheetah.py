"""HalfCheetah as in PETS (Chua et al. 2018)."""

import torch
from torch import Tensor

from pyro_dynamics.tasks.suite.locomotion import LocomotionTask, names_with_rates

JOINTS = ("back thigh", "back shin", "back foot", "front thigh", "front shin", "front foot")


class HalfCheetahTask(LocomotionTask):
    """Run forward: reward is the velocity reached less a tenth of the squared action.

    The observation (18) is [(x_t - x_{t-1}) / dt in m/s, height, pitch, six joint angles, nine velocities]. The
    network's inputs are sine and cosine of the pitch and not the first entry, which is predicted absolutely.
    """

    state_dim = 18
    action_dim = 6
    feature_dim = 18
    target_dim = 18
    state_names, target_names = names_with_rates(
        ("height (m)", "pitch (rad)", *(f"{joint} (rad)" for joint in JOINTS)),
        ("speed (m/s)", "vertical speed (m/s)", "pitch rate (rad/s)", *(f"{joint} rate (rad/s)" for joint in JOINTS)),
    )

    def features(self, state: Tensor) -> Tensor:
        return torch.cat(_seen(state), dim=-1)

    def inputs(self, state: Tensor, action: Tensor) -> Tensor:
        if type(self).features is not HalfCheetahTask.features:  # in a subclass
            return super().inputs(state, action)
        return torch.cat([*_seen(state), action], dim=-1)  # copied once: at a plan's many rows that shows

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return next_state[..., 0] - 0.1 * action.square().sum(-1)


def _seen(state: Tensor) -> list[Tensor]:
    """The network's inputs from states ``[..., 18]``, in parts."""
    pitch = state[..., 2:3]
    return [state[..., 1:2], pitch.sin(), pitch.cos(), state[..., 3:]]
