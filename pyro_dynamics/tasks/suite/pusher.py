"""Gymnasium's Pusher."""

from torch import Tensor

from pyro_dynamics.tasks.task import Task

JOINTS = ("shoulder pan", "shoulder lift", "upper arm roll", "elbow", "forearm roll", "wrist flex", "wrist roll")


class PusherTask(Task):
    """Push the object to the goal, as in Pusher-v5.

    The observation (23) is [seven joint angles, their rates, places in m of the arm's tip, the object and the goal].
    """

    state_dim = 23
    action_dim = 7
    feature_dim = 23
    target_dim = 23
    state_names = (
        *(f"{joint} (rad)" for joint in JOINTS),
        *(f"{joint} rate (rad/s)" for joint in JOINTS),
        *(f"{part} {axis} (m)" for part in ("tip", "object", "goal") for axis in "xyz"),
    )
    target_names = tuple(f"change of {name}" for name in state_names)

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        tip, thing, goal = next_state[..., 14:17], next_state[..., 17:20], next_state[..., 20:23]
        near, there = (thing - tip).norm(dim=-1), (thing - goal).norm(dim=-1)
        return -0.5 * near - there - 0.1 * action.square().sum(-1)
