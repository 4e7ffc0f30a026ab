"""Run a reproduction that is killed at random moments, until one attempt comes to its end. A program of its own.

    python killed_reproduction.py KILLS SEED ARGUMENTS...

Forked after the imports, so that every kill hits work. Prints how many attempts were killed.
"""

import os
import random
import signal
import sys
import time

from pyro_dynamics.runners.main import main


def attempt(arguments: list[str], seconds: float | None) -> bool:
    """One attempt in a child of its own, killed after so many seconds; whether it was."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the child ends
        os._exit(main(arguments))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, f"an attempt ended with {os.WEXITSTATUS(status)}"
    return False


def run(kills: int, seed: int, arguments: list[str]) -> int:
    """Attempts that were killed before the end, ``kills`` at most."""
    moments = random.Random(seed)
    for killed in range(kills):
        if not attempt(arguments, moments.uniform(0.05, 2.5)):
            return killed
    attempt(arguments, None)
    return kills


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
