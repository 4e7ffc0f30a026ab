"""Every numeric flag of every command, out of the commands' own dataclasses, so that a new one is found too."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

from pyro_dynamics.runners.benchmark import BENCHMARKS, module_of
from pyro_dynamics.runners.common.configuration import CHOICES
from pyro_dynamics.runners.main import COMMANDS

EVERY_COMMAND = [name for name in COMMANDS if name != "benchmark"] + [f"benchmark {name}" for name in BENCHMARKS]
"""With each benchmark as a command of its own."""


@dataclass(frozen=True)
class NumericFlag:
    """A flag that takes numbers.

    Attributes:
        name: with its dashes.
        kind: int or float.
        count: how many numbers it has now, None where it takes exactly one.
        chosen: flags without which it does not exist: ``("--guide", "flow")``.
        holder: the dataclass that has it.
        field: its name there.
    """

    name: str
    kind: type
    count: int | None = None
    chosen: tuple[str, ...] = ()
    holder: Any = field(default=None, compare=False)
    field: str = field(default="", compare=False)

    def given(self, value: object) -> list[str]:
        """The arguments that give it a value, as often as it has one now."""
        if self.count is None:
            return [*self.chosen, f"{self.name}={value}"]
        return [*self.chosen, self.name, *[str(value)] * max(self.count, 1)]

    def held(self, value: int | float) -> Any:
        """The dataclass with that value, as often as it has one now; it refuses what makes no sense."""
        number = self.kind(value)
        given = number if self.count is None else (number,) * max(self.count, 1)
        return replace(self.holder, **{self.field: given})


def parsed(command: str, arguments: Sequence[str]) -> Any:
    """The flags of a command, as it reads these arguments, with all its checks of them."""
    name, _, benchmark = command.partition(" ")
    module = module_of(benchmark) if benchmark else importlib.import_module(f"pyro_dynamics.runners.{name}")
    if hasattr(module, "parse"):
        return module.parse(arguments)
    kind = module.Flags if benchmark else getattr(module, f"{name.title()}Flags")
    return tyro.cli(kind, args=arguments)


def numeric_flags(command: str, arguments: Sequence[str]) -> list[NumericFlag]:
    """Those of a command, and of every guide, belief, update and planner that it can be given.

    Args:
        command: its name.
        arguments: with which it runs.
    """
    settings = parsed(command, arguments)
    return list(dict.fromkeys([*within(settings), *of_choices(settings)]))


def within(settings: Any, prefix: str = "--") -> Iterator[NumericFlag]:
    """The numeric flags of a dataclass and of all dataclasses in it."""
    hints = get_type_hints(type(settings), include_extras=True)
    for one in fields(settings):
        value, hint = getattr(settings, one.name), hints[one.name]
        name = named(one.name, hint)
        if is_dataclass(value):
            yield from within(value, prefix + (f"{name}." if name else ""))
        elif kinds := {int, float} & set(parts(hint)):
            several = any(get_origin(part) is tuple for part in parts(hint))
            count = len(value or ()) if several else None
            yield NumericFlag(prefix + name, kinds.pop(), count, (), settings, one.name)


def of_choices(settings: Any) -> Iterator[NumericFlag]:
    """The numeric flags of everything that may be chosen in a dataclass and in all dataclasses in it."""
    for one in fields(settings):
        choice = one.name.removesuffix("_config")
        if one.name != choice and choice in CHOICES:
            for word in CHOICES[choice]:
                found = within(CHOICES[choice].find(word).Config(), f"--{choice}.")
                yield from (replace(flag, chosen=(f"--{choice}", word)) for flag in found)
        elif is_dataclass(getattr(settings, one.name)):
            yield from of_choices(getattr(settings, one.name))


def named(attribute: str, hint: Any) -> str:
    """What tyro calls a field."""
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    given = [mark.name for mark in marks if getattr(mark, "name", None) is not None]
    return str(given[0]) if given else attribute.replace("_", "-")


def parts(hint: Any) -> Iterator[Any]:
    """A type, and all types in it."""
    yield hint
    for part in get_args(hint):
        yield from parts(part)
