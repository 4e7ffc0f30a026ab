"""What a planner must know of an environment, as batched torch functions."""

from pyro_dynamics.tasks.ant import AntTask
from pyro_dynamics.tasks.box import BoxTask
from pyro_dynamics.tasks.cadm_pendulum import CaDMPendulumTask
from pyro_dynamics.tasks.cartpole import CartPoleTask
from pyro_dynamics.tasks.functions import on_numpy
from pyro_dynamics.tasks.halfcheetah import HalfCheetahTask
from pyro_dynamics.tasks.hopper import HopperTask
from pyro_dynamics.tasks.inverted_pendulum import InvertedPendulumTask
from pyro_dynamics.tasks.locomotion import LocomotionTask
from pyro_dynamics.tasks.pendulum import PendulumTask
from pyro_dynamics.tasks.pusher import PusherTask
from pyro_dynamics.tasks.reacher import ReacherTask
from pyro_dynamics.tasks.slim_humanoid import SlimHumanoidTask
from pyro_dynamics.tasks.spaces import check_spaces
from pyro_dynamics.tasks.swimmer import SwimmerTask
from pyro_dynamics.tasks.task import Task
from pyro_dynamics.tasks.walker2d import Walker2dTask

__all__ = [
    "AntTask",
    "BoxTask",
    "CaDMPendulumTask",
    "CartPoleTask",
    "HalfCheetahTask",
    "HopperTask",
    "InvertedPendulumTask",
    "LocomotionTask",
    "PendulumTask",
    "PusherTask",
    "ReacherTask",
    "SlimHumanoidTask",
    "SwimmerTask",
    "Task",
    "Walker2dTask",
    "check_spaces",
    "on_numpy",
]
