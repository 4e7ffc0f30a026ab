"""The directive ``presets``: every setting of every preset, out of the code that makes them."""

from dataclasses import asdict
from typing import Any, get_args

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pyro_dynamics.runners.common.configuration import Preset, RunConfig, preset_config

PRESETS = get_args(Preset)
SIZES = {"small": "pendulum-gravity", "large": "halfcheetah-tilt"}
"""A family of each size of task."""
NOT_SETTINGS = {"family", "preset", "seed"}
NAMES = {"online.belief_config": "belief", "online.update_config": "update", "guide_config": "guide"}
"""Where the settings of a part stand in the configuration, and before the dot of their flags."""
NAMES |= {"planner_config": "planner", "online": ""}


class PresetsDirective(SphinxDirective):
    """``{presets} small`` or ``large``: what differs between presets; ``{presets} same``: what does not."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table."""
        same = same_everywhere()
        if self.arguments[0] == "same":
            head, table = ["in every preset"], {flag: values[:1] for flag, values in same.items()}
        else:
            head, table = [f"`{preset}`" for preset in PRESETS], settings(SIZES[self.arguments[0]])
            table = {flag: values for flag, values in table.items() if flag not in same}
        rows = [f"| {' | '.join(['flag', *head])} |", "|---|" + "--:|" * len(head)]
        rows += [f"| `{flag}` | {' | '.join(values)} |" for flag, values in table.items()]
        found = self.parse_text_to_nodes("\n".join(rows))
        for node in found:
            node["classes"].append("flags")
        return found


def settings(family: str) -> dict[str, list[str]]:
    """The value of each flag in each preset; empty where a preset's part has no such setting."""
    by_preset = [flat(preset_config(family, preset)) for preset in PRESETS]
    flags = list(dict.fromkeys(flag for values in by_preset for flag in values))
    parts = [flag.partition(".")[0] for flag in flags]
    flags.sort(key=lambda flag: parts.index(flag.partition(".")[0]))  # the settings of a part beside its name
    return {flag: [values.get(flag, "") for values in by_preset] for flag in flags}


def same_everywhere() -> dict[str, list[str]]:
    """The settings that have one value in all presets, whatever the size of the task."""
    small, large = (settings(family) for family in SIZES.values())
    return {flag: small[flag] for flag in small if flag in large and len({*small[flag], *large[flag]}) == 1}


def flat(config: RunConfig) -> dict[str, str]:
    """A configuration as flags and values, each as it is written on the command line."""
    found: dict[str, str] = {}

    def add(data: dict[str, Any], path: str, prefix: str) -> None:
        for name, value in data.items():
            if isinstance(value, dict):
                there = f"{path}{name}"
                add(value, f"{there}.", NAMES.get(there, name))
            elif f"{path}{name}" not in NOT_SETTINGS:
                flag = name.replace("_", "-")
                found[f"--{prefix}.{flag}" if prefix else f"--{flag}"] = text(value)

    add(asdict(config), "", "")
    return found


def text(value: Any) -> str:
    """A value as a person writes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(map(text, value)) or "none"
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.add_directive("presets", PresetsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
