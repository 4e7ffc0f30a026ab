"""Names that have changed: old run folders still load, and a flag's old name says the new one."""

from collections.abc import Sequence
from typing import Any

from pyro_dynamics.errors import UserError

FLAGS = {
    "--beside": "--compare",
    "--where": "--environment",
    "--keep": "--keep-checkpoints",
    "--offline.decay": "--offline.lr-decay",
    "--offline.spread": "--offline.init-mean-std",
    "--controller.widen": "--controller.reset-on-change",
    "--planner.carry": "--planner.std-carry",
    "--belief.retention": "--belief.forgetting-factor",
}
BELIEFS = {"exact": "recursive"}
TRACKED = {**BELIEFS, "told": "oracle-reset"}
"""What ``track --beliefs`` compares."""
FIELDS: dict[str, dict[str, str]] = {
    "": {"keep": "keep_checkpoints"},
    "offline": {"decay": "lr_decay", "spread": "init_mean_std"},
    "controller": {"widen": "reset_on_change"},
    "planner_config": {"carry": "std_carry"},
    "belief_config": {"retention": "forgetting_factor"},
}
"""Of ``config.json``, by the part that holds them."""


def with_new_names(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, with beliefs by their new names.

    Raises:
        UserError: if a flag has another name now.
    """
    renamed = list(arguments)
    for index, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") in FLAGS:
            raise UserError(f"{flag} is called {FLAGS[flag.replace('_', '-')]} now")
        if flag == "--belief" and equals:
            renamed[index] = f"--belief={BELIEFS.get(value, value)}"
        elif index and arguments[index - 1] == "--belief":
            renamed[index] = BELIEFS.get(word, word)
    if "--beliefs" in arguments:
        for index in range(renamed.index("--beliefs") + 1, len(renamed)):
            if renamed[index].startswith("--"):
                break
            kind, colon, settings = renamed[index].partition(":")
            renamed[index] = f"{TRACKED.get(kind, kind)}{colon}{settings.replace('retention=', 'forgetting_factor=')}"
    return renamed


def upgraded(data: Any, part: str = "") -> Any:
    """A configuration out of ``config.json`` of any version, with the names of this one."""
    if not isinstance(data, dict):
        return data
    names = FIELDS.get(part, {})
    found = {names.get(name, name): upgraded(value, name) for name, value in data.items()}
    if found.get("belief") in BELIEFS:
        found["belief"] = BELIEFS[found["belief"]]
    return found
