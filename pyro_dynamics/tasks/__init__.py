"""What a planner must know of an environment, as batched torch functions."""

from pyro_dynamics.tasks.box import BoxTask
from pyro_dynamics.tasks.functions import on_numpy
from pyro_dynamics.tasks.spaces import check_spaces
from pyro_dynamics.tasks.suite.ant import AntTask
from pyro_dynamics.tasks.suite.cadm_pendulum import CaDMPendulumTask
from pyro_dynamics.tasks.suite.cartpole import CartPoleTask
from pyro_dynamics.tasks.suite.halfcheetah import HalfCheetahTask
from pyro_dynamics.tasks.suite.hopper import HopperTask
from pyro_dynamics.tasks.suite.inverted_pendulum import InvertedPendulumTask
from pyro_dynamics.tasks.suite.locomotion import LocomotionTask
from pyro_dynamics.tasks.suite.pendulum import PendulumTask
from pyro_dynamics.tasks.suite.pusher import PusherTask
from pyro_dynamics.tasks.suite.reacher import ReacherTask
from pyro_dynamics.tasks.suite.slim_humanoid import SlimHumanoidTask
from pyro_dynamics.tasks.suite.swimmer import SwimmerTask
from pyro_dynamics.tasks.suite.walker2d import Walker2dTask
from pyro_dynamics.tasks.task import Task

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
