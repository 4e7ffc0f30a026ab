"""Run a command that is killed (SIGKILL) at random moments, until an attempt comes to its end. A program of its own.

    python tests/killed.py KILLS SEED LONGEST ARGUMENTS...

Forked after the imports, so that every kill hits work; LONGEST is the latest moment, in seconds of the attempt's own
processor time, which does not depend on what else the machine does. Linux. Prints how many attempts were killed.
"""

import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable

from pyro_dynamics.runners.main import main


def attempt(arguments: list[str], seconds: float = math.inf) -> float | None:
    """One attempt in a child of its own, killed after so many seconds of its processor time.

    Returns:
        The seconds that it took, or None if it was killed.

    Raises:
        AssertionError: if it ended by itself and did not succeed.
    """
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the child ends
        os._exit(main(arguments))
    clock = (~child << 3) | 2  # clock_getcpuclockid(3) of another process
    ended = status = 0
    while not ended:
        if time.clock_gettime(clock) > seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
        ended, status, used = os.wait4(child, os.WNOHANG)
    if os.WIFSIGNALED(status):
        return None
    assert os.WEXITSTATUS(status) == 0, f"an attempt ended with {os.WEXITSTATUS(status)}"
    return used.ru_utime + used.ru_stime


def run(
    kills: int,
    moments: random.Random,
    longest: float,
    arguments: Callable[[], list[str]],
    after_kill: Callable[[], object] = lambda: None,
) -> int:
    """Attempts that were killed before one came to its end, ``kills`` at most; the next one is then left alone.

    Args:
        kills: the most.
        moments: draws the moment of each kill.
        longest: the latest moment, in seconds of processor time.
        arguments: of the next attempt.
        after_kill: looks at what is left.
    """
    for killed in range(kills):
        if attempt(arguments(), moments.uniform(0.0, longest)) is not None:
            return killed
        after_kill()
    attempt(arguments())
    return kills


if __name__ == "__main__":
    number, seed, latest, *command = sys.argv[1:]
    print(run(int(number), random.Random(int(seed)), float(latest), lambda: command))
