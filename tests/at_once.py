"""Run a command in several processes that begin at the same moment, and print their exit codes. A program of its own.

    python tests/at_once.py PROCESSES ARGUMENTS...

Forked after the imports, so that they meet at their work. What they print to standard error goes to this one's. POSIX.
"""

import os
import sys

from pyro_dynamics.runners import reproduce, sweep, track, train  # noqa: F401  # what takes long
from pyro_dynamics.runners.main import main

if __name__ == "__main__":
    count, *command = sys.argv[1:]
    ready, go = os.pipe()
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(ready, 1)  # until this process closes it
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the child ends
            os._exit(main(command))
        children.append(child)
    os.close(go)
    print(*sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
