"""pyro-dynamics families: the registered families, one a line, the name first."""

from collections.abc import Sequence

import tyro

from pyro_dynamics.environments import FAMILIES
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.runners.main import run_as_module


def list_families() -> None:
    """List the registered families, one a line, the name first."""
    for family in FAMILIES.values():
        train = " ".join(map(label, family.train))
        sets = (f"{name} {' '.join(map(label, contexts))}" for name, contexts in family.test_sets.items())
        print(f"{family.name:<30}{family.description}; {family.axis}: train {train}; {'; '.join(sets)}")


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    tyro.cli(list_families, prog="pyro-dynamics families", args=arguments)


if __name__ == "__main__":
    run_as_module("families")
