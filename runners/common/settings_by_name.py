"""Settings by the names of ``config.json``, as the Python interface takes them: with the words of the command line."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args

import numpy as np

from pyro_dynamics.datasets.log_arrays import ColumnNames
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import whole_number
from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.runners.common.configuration import (
    CHOICES,
    OnlineConfig,
    Preset,
    RunConfig,
    from_json,
    online_for,
    preset_config,
    require_pair,
    require_sizes,
    to_json,
    with_choices,
)
from pyro_dynamics.runners.fit import FitConfig

LONGEST = 60
"""Characters of the settings in a folder's name; what is longer is a digest."""


def train_config(family: str, preset: Preset, seed: int, settings: Mapping[str, Any]) -> RunConfig:
    """The preset's configuration with some fields changed.

    Raises:
        UserError: if a field does not exist, or its value makes no sense.
    """
    if preset not in get_args(Preset):
        raise UserError(f"unknown preset {preset!r}: choose one of {', '.join(get_args(Preset))}")
    allowed = (_names(RunConfig) | _names(OnlineConfig)) - {"family", "preset", "online"}
    config = _merged(_chosen(preset_config(family, preset), settings), {**settings, "seed": seed}, among=allowed)
    require_sizes(config)
    require_pair(config)
    return config


def fit_config(seed: int, settings: Mapping[str, Any]) -> FitConfig:
    """The configuration of a fit with some fields changed.

    Raises:
        UserError: if a field does not exist, or its value makes no sense.
    """
    allowed = (_names(FitConfig) | _names(OnlineConfig)) - {"online"}
    start = replace(RunConfig(), **{name: getattr(FitConfig(), name) for name in _names(FitConfig)})
    config = _merged(_chosen(start, settings), {**settings, "seed": seed}, among=allowed)
    return FitConfig(**{name: getattr(config, name) for name in _names(FitConfig)})


def online_config(config: RunConfig, settings: Mapping[str, Any]) -> OnlineConfig:
    """How the beliefs of a run follow what comes, with some fields changed.

    Raises:
        UserError: if a field does not exist, or its value makes no sense.
    """
    return (
        _merged(_chosen(config, settings), settings, among=_names(OnlineConfig)).online if settings else config.online
    )


def column_names(columns: Mapping[str, str | Sequence[str]]) -> ColumnNames:
    """What the data calls its columns, several with commas or as a list.

    Raises:
        UserError: for a part that there is not, or what is no name.
    """
    if not isinstance(columns, Mapping):
        raise UserError(f'columns is a dict such as {{"state": ["x", "v"], "action": "push"}}, not {columns!r:.60}')
    unknown = sorted(set(map(str, columns)) - _names(ColumnNames))
    if unknown:
        raise UserError(f"columns has no entry {unknown[0]!r}: choose among {', '.join(sorted(_names(ColumnNames)))}")
    return ColumnNames(**{part: words(_quoted(some), f"columns[{part!r}]") for part, some in columns.items()})


def _quoted(names: Any) -> Any:
    """A list of names with those that have a comma in double quotes, as :class:`ColumnNames` reads them."""
    if not isinstance(names, list | tuple):
        return names
    return ['"' + name.replace('"', '""') + '"' if isinstance(name, str) and "," in name else name for name in names]


def words(given: Any, what: str) -> str:
    """A name, or several with commas between them: text, a list of texts, or numbers that are names in a table.

    Raises:
        UserError: if it is something else.
    """
    some = [given] if isinstance(given, str | int | np.integer) else given
    if not isinstance(some, list | tuple) or not all(
        isinstance(one, str | int | np.integer) and not isinstance(one, bool) for one in some
    ):
        raise UserError(f"{what} is a name or a list of names, not {given!r:.60}")
    return ",".join(map(str, some))


def state_entries(angles: Any, names: ColumnNames, size: int) -> tuple[int, ...]:
    """Entries of the state, each given by its number or by the name of its column.

    Args:
        angles: one entry, or several.
        names: what the columns are called; without, the state's are state_0, state_1 and so on.
        size: of the state.

    Raises:
        UserError: if there is no such entry.
    """
    own = names.given().get("state", [])
    own = own if len(own) == size else [f"state_{i}" for i in range(size)]  # else one holds several entries
    found = []
    for one in [angles] if isinstance(angles, str) or not isinstance(angles, Iterable) else angles:
        if isinstance(one, str) and one not in own:
            raise UserError(f"angles names {one!r}, and the entries of the state are {', '.join(own)}")
        found.append(own.index(one) if isinstance(one, str) else whole_number(one, "an entry of angles", 0))
    return tuple(dict.fromkeys(found))


def folder_suffix(config: RunConfig, settings: Mapping[str, Any]) -> str:
    """What distinguishes a run with other settings than its preset's, in the name of its folder."""
    usual = to_json(preset_config(config.family, config.preset))
    other = {name: value for name, value in sorted(settings.items()) if name not in usual or usual[name] != value}
    plain = {name: _nested(name, value, value) if is_dataclass(value) else value for name, value in other.items()}
    words = [
        f"-{name}-{CHOICES[name].word_for(value) if name in CHOICES else json.dumps(value, default=str)}"
        for name, value in plain.items()
    ]
    text = re.sub(r'["{} ]', "", "".join(words))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    if not text:
        return ""
    return file_name(text) if len(text) <= LONGEST else f"-{digest}"


def _chosen(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """A configuration with the guide, belief, update and planner that some settings name, each with its defaults."""
    words = {name: CHOICES[name].word_for(settings[name]) for name in CHOICES if name in settings}
    arguments = [part for name, word in words.items() for part in (f"--{name}", word)]
    config = with_choices(config, arguments)
    return replace(config, online=with_choices(online_for(config.guide, config.online), arguments))


def _merged(config: RunConfig, settings: Mapping[str, Any], among: set[str]) -> RunConfig:
    """A configuration with some fields changed; those of the belief stand beside the others, as flags do."""
    unknown = sorted(set(settings) - among)
    if unknown:
        raise UserError(f"unknown setting {unknown[0]!r}: choose among {', '.join(sorted(among))}")
    data = to_json(config)
    for name, value in settings.items():
        there = data["online"] if name in data["online"] else data
        there[name] = CHOICES[name].word_for(value) if name in CHOICES else _nested(name, there[name], value)
    return from_json(data, "these settings make no sense: {}")


def _nested(name: str, there: Any, value: Any) -> Any:
    """A value as plain data; of a group of settings only those that are given are changed."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, Mapping):
        return value
    unknown = sorted(set(value) - set(there))
    if unknown:
        raise UserError(f"{name} has no setting {unknown[0]!r}: choose among {', '.join(there)}")
    return {**there, **value}


def _names(config: type) -> set[str]:
    return {field.name for field in fields(config)}
