"""The protocol: rounds of learning, adaptation to new environments, evaluation, and the folder of a run."""

from pyro_dynamics.experiments.adaptation import adapt
from pyro_dynamics.experiments.interaction import Step, interact
from pyro_dynamics.experiments.learning import learn
from pyro_dynamics.experiments.run_folder import RunFolder
from pyro_dynamics.experiments.task_check import check_task
from pyro_dynamics.experiments.team import Team

__all__ = ["RunFolder", "Step", "Team", "adapt", "check_task", "interact", "learn"]
