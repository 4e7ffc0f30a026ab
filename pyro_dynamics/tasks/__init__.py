"""What a planner must know of an environment, as batched torch functions."""

from pyro_dynamics.tasks.halfcheetah import HalfCheetahTask
from pyro_dynamics.tasks.pendulum import PendulumTask
from pyro_dynamics.tasks.task import Task

__all__ = ["HalfCheetahTask", "PendulumTask", "Task"]
