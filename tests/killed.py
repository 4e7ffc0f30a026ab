"""Run a command that is killed (SIGKILL) at random moments, until an attempt comes to its end. A program of its own.

    python tests/killed.py KILLS SEED LONGEST ARGUMENTS...

Forked after the imports, so that every kill hits work; LONGEST is the latest moment, in seconds of the attempt's own
CPU time, which does not depend on what else the machine does. A training that has begun is resumed. Linux. Prints how
many attempts were killed.
"""

import math
import os
import random
import signal
import sys
import time
from pathlib import Path

from pyro_dynamics.runners.main import main


def attempt(arguments: list[str], seconds: float) -> bool:
    """Whether a child came to its end, and was not killed after so many seconds of its CPU time."""
    out = arguments[arguments.index("--out") + 1]
    if arguments[0] == "train" and Path(out, "config.json").is_file():
        arguments = ["train", "--resume", out]
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
        ended, status = os.waitpid(child, os.WNOHANG)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"an attempt ended with {os.WEXITSTATUS(status)}"
    return not os.WIFSIGNALED(status)


if __name__ == "__main__":
    kills, seed, longest, *command = sys.argv[1:]
    moments = random.Random(int(seed))
    killed = 0
    while not attempt(command, moments.uniform(0.0, float(longest)) if killed < int(kills) else math.inf):
        killed += 1
    print(killed)
