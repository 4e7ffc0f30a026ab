"""The grid of a sweep: values of flags of ``train``, of which every combination is trained."""

import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from io import StringIO
from itertools import chain, product

from pyro_dynamics.errors import UserError
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.runners import train

EXAMPLE = "offline.learning-rate=1e-3,5e-3"
OWN = {
    "family": "its first arguments",
    "agent": "--agents",
    "guide": "--guides",
    "seed": "--seeds",
    "preset": "--preset",
}
"""What a sweep has flags of its own for."""
LONGEST = 60
"""Characters of a point in a folder's name; a longer one ends in a digest."""


def grid_points(entries: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of values, by the names of their flags; a single empty one where there is no grid.

    Args:
        entries: as each ``--grid`` has them, ``NAME=VALUE,VALUE``.

    Raises:
        UserError: if one is not written so, or names a flag twice, or one of the sweep's own.
    """
    values: dict[str, list[str]] = {}
    for entry in chain.from_iterable(entries):
        name, _, text = entry.partition("=")
        name, given = name.strip().removeprefix("--"), [value.strip() for value in text.split(",")]
        if not name or not all(given):
            raise UserError(f"--grid {entry}: write NAME=VALUE,VALUE with a flag of train, such as {EXAMPLE}")
        if name in OWN:
            raise UserError(f"--grid {entry}: a sweep is given each {name} by {OWN[name]}")
        if name in values:
            raise UserError(f"--grid names {name} twice: give all its values at once, such as {EXAMPLE}")
        values[name] = list(dict.fromkeys(given))
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


def as_flags(point: Mapping[str, str]) -> list[str]:
    """A point as arguments of ``train``: true and false turn a flag on and off, spaces part several values of one."""
    arguments = []
    for name, value in point.items():
        group, dot, word = name.rpartition(".")
        if value.lower() in ("true", "false"):
            arguments.append(f"--{group}{dot}{'' if value.lower() == 'true' else 'no-'}{word}")
        elif len(several := value.split()) > 1:
            arguments += [f"--{name}", *several]
        else:
            arguments.append(f"--{name}={value}")
    return arguments


def train_flags(arguments: Sequence[str], point: Mapping[str, str]) -> train.TrainFlags:
    """What ``train`` makes of the arguments and a point of the grid.

    Raises:
        UserError: if it does not take the point.
    """
    if not point:
        return train.parse(arguments)
    words = StringIO()
    try:
        with redirect_stdout(words), redirect_stderr(words):
            return train.parse([*arguments, *as_flags(point)])
    except UserError as mistake:
        raise UserError(f"--grid {in_words(point)}: {mistake}") from None
    except SystemExit:  # tyro's, whose words between its first two rules say what is wrong
        _, found, *_ = [*re.split("[─-]{20,}", words.getvalue()), ""]
        raise UserError(f"--grid {in_words(point)}: {' '.join(re.sub('[╮│]', '', found).split())}") from None


def in_words(point: Mapping[str, str]) -> str:
    """A point as it could be given."""
    return " ".join(f"{name}={value}" for name, value in point.items())


def in_names(point: Mapping[str, str]) -> str:
    """A point in the name of a folder, with a dash before each value."""
    if not point:
        return ""
    text = "".join(f"-{name}={value}" for name, value in point.items())
    digest = sha256(text.encode()).hexdigest()[:8]
    return file_name(text) if len(text) <= LONGEST else f"{file_name(text[: LONGEST - 9])}-{digest}"
