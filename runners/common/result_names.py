"""Names of results, made of the flags that change their numbers: other flags are other results."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import read_json
from pyro_dynamics.environments import Schedule
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.runners.common.configuration import OnlineConfig

LONGEST = 80
"""Characters of the part of a name that depends on flags."""
LONGEST_SCHEDULE = 100
"""Characters of the part of a name that says what was acted in."""


def keep_older(place: Path, checkpoint: int | None, name_for: Callable[[int], Path], older: int | None = None) -> None:
    """Let the results of an older network make room, under the name that ``--checkpoint`` gives them.

    Args:
        place: of the results of the newest network: a JSON file, or a folder with one.
        checkpoint: its round.
        name_for: the place of the results of another round's network.
        older: the round of the network of what is there, where that does not say so itself.
    """
    older = network_of(place) if older is None else older
    if older is None or older == checkpoint or not place.exists() or name_for(older).exists():
        return
    place.rename(name_for(older))
    print(f"the results of the network after round {older} are kept in {name_for(older)}")


def network_of(place: Path) -> int | None:
    """The round of the network whose results are there; None where there are none, or none of ours."""
    files = [place / name for name in ("summary.json", "diagnostics.json")] if place.is_dir() else [place]
    for file in files:
        try:
            found = read_json(file)
            older = found["round" if file.name == "diagnostics.json" else "checkpoint"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        return older if isinstance(older, int) else None
    return None


def name_of_flags(given: Mapping[str, Any], usual: Mapping[str, Any], online: OnlineConfig, own: OnlineConfig) -> str:
    """The part of a result's name from flags that are not the defaults: ``-seed=1-belief=power``, or nothing.

    Args:
        given: flags that change the numbers, by name.
        usual: their defaults.
        online: how beliefs are updated.
        own: how the run itself updates them.
    """
    given, usual = dict(given), dict(usual)
    for values, config in ((given, online), (usual, own)):
        values |= {name: getattr(config, name) for name in ("belief", "update", "temperature", "belief_per", "prior")}
    for part in ("belief", "update"):
        chosen = getattr(online, f"{part}_config")
        before = getattr(own, f"{part}_config") if given[part] == usual[part] else type(chosen)()
        for values, settings in ((given, chosen), (usual, before)):
            values |= {f"{part}.{name}": value for name, value in asdict(settings).items()}
    return name_of_values(given, usual)


def name_of_values(given: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The part of a result's name from values that are not the defaults: ``-seed=1-rows=500``, or nothing.

    Args:
        given: values that change the numbers, by name.
        usual: their defaults.
    """
    different = {name: value for name, value in given.items() if value != usual[name]}
    listed = {name: value if isinstance(value, tuple) else (value,) for name, value in different.items()}
    text = cut("".join(f"-{name}={','.join(map(str, values))}" for name, values in listed.items()), LONGEST)
    return text and "-" + file_name(text[1:])


def text_of_schedule(text: str, schedule: Schedule) -> str:
    """What stands for a schedule in names and settings: its text; of a file with a digest of its path and what it says.

    A file may be edited between two commands, and `walks/a.csv` lies beside `walks_a.csv`.
    """
    if not text.startswith("file:"):
        return text
    return f"{text.replace('/', '_')}-{digest(repr((text, schedule.changes)))}"


def name_of_schedule(text: str) -> str:
    """The part of a result's name that says what was acted in: 0_9_40_3 of 0:9,40:3.

    Where more than these marks is replaced, or cut off, a digest makes the difference.
    """
    name = re.sub(r"[:,=]", "_", text)
    if len(name) <= LONGEST_SCHEDULE and file_name(name) == name:
        return name
    return file_name(f"{name[: LONGEST_SCHEDULE - 9]}-{digest(text)}")


def cut(text: str, longest: int) -> str:
    """A text that is too long for a name, with a digest of it: two may differ at their ends alone."""
    return text if len(text) <= longest else f"{text[: longest - 9]}-{digest(text)}"


def digest(text: str) -> str:
    """Eight digits that another text does not have."""
    return sha256(text.encode()).hexdigest()[:8]
