"""Names that have changed: old run folders still load, and a flag's old name says the new one."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pyro_dynamics.errors import UserError

FLAGS = {
    "--beside": "--compare",
    "--where": "--environment",
    "--keep": "--keep-checkpoints",
    "--offline.decay": "--offline.lr-decay",
    "--offline.no-decay": "--offline.no-lr-decay",
    "--offline.spread": "--offline.init-mean-std",
    "--controller.widen": "--controller.reset-on-change",
    "--controller.no-widen": "--controller.no-reset-on-change",
    "--planner.carry": "--planner.std-carry",
    "--belief.retention": "--belief.forgetting-factor",
}
WORDS = {"--tensorboard": ["--tracker", "tensorboard"], "--no-tensorboard": ["--tracker", "none"]}
"""Flags that are taken as others with a value."""
BELIEFS = {"exact": "recursive"}
TRACKED = {**BELIEFS, "told": "oracle-reset"}
"""What ``track --beliefs`` compares."""
FIELDS: dict[str, dict[str, str]] = {
    "": {"keep": "keep_checkpoints"},
    "offline": {"decay": "lr_decay", "spread": "init_mean_std"},
    "controller": {"widen": "reset_on_change"},
}
"""Of ``config.json``, by the part that holds them."""
SETTINGS = {("belief", "power"): {"retention": "forgetting_factor"}, ("planner", "icem"): {"carry": "std_carry"}}
"""Of ``config.json`` too: of a belief and a planner by their names; a part of the user's own keeps its words."""


def with_new_names(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, with beliefs and trackers by their new names.

    Raises:
        UserError: if a flag has another name now.
    """
    renamed, listing = list(arguments), False
    named = {name for name in ("belief", "planner") for word in _after(arguments, f"--{name}") if ":" in word}
    for index, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        if flag in FLAGS and flag.removeprefix("--").partition(".")[0] not in named:
            raise UserError(f"{flag} is called {FLAGS[flag]} now")
        if flag == "--belief" and equals:
            renamed[index] = f"--belief={BELIEFS.get(value, value)}"
        elif index and arguments[index - 1] == "--belief":
            renamed[index] = BELIEFS.get(word, word)
        elif flag == "--beliefs" and equals:
            renamed[index] = f"--beliefs={_tracked(value)}"
        elif listing and not word.startswith("--"):
            renamed[index] = _tracked(word)
        listing = flag == "--beliefs" or (listing and not word.startswith("--"))
    return [word for one in renamed for word in WORDS.get(one, [one])]


def _after(arguments: Sequence[str], flag: str) -> list[str]:
    """The words that a flag is given, as ``--flag WORD`` or ``--flag=WORD``."""
    return [word for before, word in pairwise(arguments) if before == flag] + [
        word.removeprefix(f"{flag}=") for word in arguments if word.startswith(f"{flag}=")
    ]


def _tracked(word: str) -> str:
    """A belief of ``track --beliefs``, with the settings behind its colon, by its new names."""
    kind, colon, settings = word.partition(":")
    if kind == "power":
        settings = ",".join(re.sub("^retention=", "forgetting_factor=", one) for one in settings.split(","))
    return f"{TRACKED.get(kind, kind)}{colon}{settings}"


def upgraded(data: Any, part: str = "") -> Any:
    """A configuration out of ``config.json`` of any version, with the names of this one."""
    if not isinstance(data, dict):
        return data
    names = FIELDS.get(part, {})
    found = {names.get(name, name): upgraded(value, name) for name, value in data.items()}
    for (kind, name), fields in SETTINGS.items():
        settings = found.get(f"{kind}_config")
        if found.get(kind) == name and isinstance(settings, dict):
            found[f"{kind}_config"] = {fields.get(key, key): value for key, value in settings.items()}
    if found.get("belief") in BELIEFS:
        found["belief"] = BELIEFS[found["belief"]]
    return found
