"""``python -m pyro_dynamics``: the command ``pyro-dynamics``, where its script is not on the path."""

import sys

from pyro_dynamics.runners.main import main

if __name__ == "__main__":
    sys.exit(main())
