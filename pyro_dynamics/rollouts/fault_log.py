"""What environments did wrong in an episode: reported once, and kept for the results."""

import sys
import traceback

from tqdm import tqdm

from pyro_dynamics.errors import EnvironmentFault


class Faults:
    """Takes the faults of environments in lockstep (see :func:`~pyro_dynamics.rollouts.rollout.rollout`).

    Each is a line on standard error. What an environment raised comes with its traceback, once for each kind.

    Attributes:
        now: the fault of each environment that broke in the present episode.
    """

    def __init__(self) -> None:
        self.now: dict[int, EnvironmentFault] = {}
        self._traced: set[str] = set()

    def begin(self) -> None:
        """A new episode begins."""
        self.now = {}

    def __call__(self, k: int, fault: EnvironmentFault) -> None:
        self.now[k] = fault
        cause = fault.__cause__
        if isinstance(cause, Exception) and (kind := traceback.format_tb(cause.__traceback__)[-1]) not in self._traced:
            self._traced.add(kind)
            tqdm.write("".join(traceback.format_exception(cause)).rstrip(), file=sys.stderr)
        tqdm.write(f"warning: {fault}; its episode ends before this step", file=sys.stderr)

    def of(self, environments: list[int]) -> dict[str, list[str]]:
        """For a row of results: the faults of some environments under ``faults``, and nothing where all was well."""
        faults = [str(self.now[k]) for k in environments if k in self.now]
        return {"faults": faults} if faults else {}
