"""Learn one dynamics model over many environments, and adapt it online: Perez, Such, Karaletsos (2018) in Pyro.

Importing the package registers its environments with Gymnasium.
"""

from pyro_dynamics.environments import FAMILIES, Family, find_family
from pyro_dynamics.interface import load, make, train
from pyro_dynamics.version import __version__

__all__ = ["FAMILIES", "Family", "__version__", "find_family", "load", "make", "train"]
