"""Gymnasium's Swimmer."""

from pyro_dynamics.tasks.suite.locomotion import LocomotionTask, names_with_rates


class SwimmerTask(LocomotionTask):
    """Swim towards +x, as in Swimmer-v5.

    The observation (9) is [mean speed, heading, two joint angles, two velocities, three rates]; it never ends.
    """

    state_dim = 9
    action_dim = 2
    feature_dim = 8
    target_dim = 9
    control_cost = 1e-4
    state_names, target_names = names_with_rates(
        ("heading (rad)", "first joint (rad)", "second joint (rad)"),
        (
            *("speed x (m/s)", "speed y (m/s)", "heading rate (rad/s)"),
            *("first joint rate (rad/s)", "second joint rate (rad/s)"),
        ),
    )
