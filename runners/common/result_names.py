"""Names of results, made of the flags that change their numbers: other flags are other results."""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from pyro_dynamics.io.untrusted_folders import file_name
from pyro_dynamics.runners.common.configuration import OnlineConfig

LONGEST = 80
"""Characters of the part of a name that depends on flags."""


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
    different = {name: value for name, value in given.items() if value != usual[name]}
    words = [f"{name}={','.join(value) if isinstance(value, tuple) else value}" for name, value in different.items()]
    text = "".join(f"-{word}" for word in words)
    if len(text) > LONGEST:
        text = text[:LONGEST] + "-" + sha256(text.encode()).hexdigest()[:8]
    return text and "-" + file_name(text[1:])
