"""Zips of shared runs among the arguments of a command, opened as the folders that the command wants."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

WRITTEN = ("--out",)
"""Flags that name what a command makes."""


def with_opened_zips(arguments: Sequence[str]) -> list[str]:
    """The arguments with the folder of each zip that is there in its place; says where that is.

    Raises:
        UserError: if a zip does not hold a run, or is not safe to open.
    """
    if not any(word.endswith(".zip") for word in arguments):
        return list(arguments)
    from pyro_dynamics.io.shared_zip import is_zip, open_zip  # only now: what it imports is heavy

    opened = []
    for before, word in pairwise(["", *arguments]):
        if before not in WRITTEN and is_zip(Path(word)):
            folder = open_zip(Path(word))
            print(f"{word} is opened as {folder}")
            word = str(folder)
        opened.append(word)
    return opened
