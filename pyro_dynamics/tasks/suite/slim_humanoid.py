"""SlimHumanoid as in CaDM (Lee et al. 2020)."""

from torch import Tensor

from pyro_dynamics.tasks.task import Task


class SlimHumanoidTask(Task):
    """Run towards +x upright.

    The observation (45) is qpos without x and y (22), then qvel (23); entry 22 is the torso's velocity along x, and
    entry 0 its height. The reward is that velocity BEFORE the step by 0.25 / 0.015, less a tenth of the squared
    action, and 5 while the height after it is within 1 and 2 m. Episodes do not end.
    """

    state_dim = 45
    action_dim = 17
    feature_dim = 45
    target_dim = 45

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        height = next_state[..., 0]
        upright = (height >= 1.0) & (height <= 2.0)
        return 0.25 / 0.015 * state[..., 22] - 0.1 * action.square().sum(-1) + 5.0 * upright
