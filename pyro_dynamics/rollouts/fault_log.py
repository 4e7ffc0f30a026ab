"""What environments did wrong in an episode: told once, and kept for the results."""

import sys
import traceback

from tqdm import tqdm

from pyro_dynamics.errors import EnvironmentFault


class Faults:
    """Takes the faults of robots in lockstep (see :func:`~pyro_dynamics.rollouts.rollout.interact`).

    Each is a line on standard error. What an environment raised comes with its traceback, once for each kind.

    Attributes:
        now: the fault of each robot that broke in the present episode.
    """

    def __init__(self) -> None:
        self.now: dict[int, EnvironmentFault] = {}
        self._traced: set[str] = set()

    def begin(self) -> None:
        """A new episode begins."""
        self.now = {}

    def __call__(self, robot: int, fault: EnvironmentFault) -> None:
        self.now[robot] = fault
        cause = fault.__cause__
        if isinstance(cause, Exception) and (kind := traceback.format_tb(cause.__traceback__)[-1]) not in self._traced:
            self._traced.add(kind)
            tqdm.write("".join(traceback.format_exception(cause)).rstrip(), file=sys.stderr)
        tqdm.write(f"warning: {fault}; its episode ends before this step", file=sys.stderr)

    def of(self, robots: list[int]) -> dict[str, list[str]]:
        """For a row of results: the faults of some robots under ``faults``, and nothing where all was well."""
        told = [str(self.now[robot]) for robot in robots if robot in self.now]
        return {"faults": told} if told else {}
