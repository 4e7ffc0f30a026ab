"""pyro-dynamics families: the registered families in a table, or the details of one."""

import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import gymnasium
import tyro

from pyro_dynamics.environments import FAMILIES, Context, Family, find_family, numbers
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.environments.mujoco.mujoco_family import MujocoMaker
from pyro_dynamics.errors import UserError
from pyro_dynamics.gymnasium_ids import gymnasium_id
from pyro_dynamics.io.tables import text_table
from pyro_dynamics.runners import benchmark
from pyro_dynamics.runners.common.limits import read_flags
from pyro_dynamics.runners.main import run_as_module
from pyro_dynamics.tasks import Task

WIDTH = 80
"""Columns of the smallest usual terminal."""
HEADS = 15
"""Columns of the words at the left of the details."""


@dataclass(frozen=True)
class FamiliesFlags:
    """List the registered families, or describe one: contexts, spaces, reward, Gymnasium id, and commands to try."""

    name: tyro.conf.Positional[str | None] = None
    """A registered family, or package.module:callable for one of your own; by default all are listed."""
    worth: bool = False
    """What a known context is worth before anything is trained: returns of the planner with the simulator itself as
    its model, given the true, the nominal and a wrong context. Takes minutes to hours: give fewer --seeds first;
    `benchmark ceiling` has more settings."""
    seeds: int = 10
    """Episodes in every test context, for --worth."""


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    flags = read_flags(FamiliesFlags, "families", arguments)
    if flags.worth:
        if flags.name is None:
            raise UserError("--worth needs the name of a family: pyro-dynamics families NAME --worth")
        benchmark.main(["ceiling", "--families", flags.name, "--seeds", str(flags.seeds)])
        return
    if flags.name is None:
        print(table(FAMILIES.values()))
        print("\npyro-dynamics families NAME describes one: all contexts, Gymnasium id, commands.")
    else:
        print(details(flags.name, find_family(flags.name)))


def table(families: Any) -> str:
    """The families, one a line, at most :data:`WIDTH` columns wide."""
    rows = [[family.name, short_parameters(family), short_contexts(family), body(family)] for family in families]
    return text_table(["family", "hidden parameter", "trained on", "body"], rows, words=3)


def short_parameters(family: Family) -> str:
    """The hidden parameters, and a unit that they share once."""
    units = ["factor" if unit == "of nominal" else unit for unit in family.units]
    if len(set(units)) == 1:
        names = ", ".join(family.parameters)
        return f"{names} ({units[0]})" if units[0] else names
    return ", ".join(f"{name} ({unit})" if unit else name for name, unit in zip(family.parameters, units, strict=True))


def short_contexts(family: Family) -> str:
    """The range of one number; how many there are of names, or of pairs of numbers."""
    if not family.numeric:
        return f"{len(family.train)} names"
    if len(family.parameters) > 1:
        return f"{len(family.train)} points"
    values = sorted(float(numbers(context)[0]) for context in family.train)
    return (
        f"{values[0]:g} {'and' if len(values) == 2 else 'to'} {values[-1]:g}" if len(values) > 1 else f"{values[0]:g}"
    )


def body(family: Family) -> str:
    """What moves, by the name of its task."""
    return type(family.make_task()).__name__.removesuffix("Task")


def details(name: str, family: Family) -> str:
    """What a user must know of a family, in lines of at most :data:`WIDTH` columns.

    Args:
        name: as it is written in commands.
        family: the family of that name.
    """
    title = f"{family.name}: {family.description}" if family.description else family.name
    lines = [*textwrap.wrap(title, WIDTH), ""]
    for head, text in sections(family):
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"{head:<{HEADS}}", subsequent_indent=" " * HEADS, break_on_hyphens=False
        )
    python = ["import gymnasium, pyro_dynamics", *in_python(name, family)]
    for head, block in (("commands to try:", commands(name, family)), ("in Python:", python)):
        lines += ["", head, *(f"  {line}" for line in block)]
    return "\n".join(lines)


def sections(family: Family) -> Iterator[tuple[str, str]]:
    """Head and text of each part of the details."""
    task = family.make_task()
    yield "hidden", family.axis
    yield "trained on", "  ".join(map(label, family.train))
    for set_name, contexts in family.test_sets.items():
        yield "tested on", ("" if set_name == "test" else f"{set_name}: ") + "  ".join(map(label, contexts))
    yield "environment", environment(family)
    if FAMILIES.get(family.name) is family and (there := gymnasium_id(family.name)):
        yield "Gymnasium id", f"{there}, {gymnasium.spec(there).max_episode_steps} steps an episode"
    named = f": {', '.join(task.state_names)}" if task.state_names else ""
    yield "observation", f"{task.state_dim} numbers{named}"
    yield "action", actions(task)
    settings = ", ".join(f"{key}={value}" for key, value in getattr(family.task, "keywords", {}).items())
    yield "task", full_name(type(task)) + (f"({settings})" if settings else "")
    yield "", about(task)
    yield "reward", origin(task, "reward")
    yield "termination", origin(task, "termination") if task.can_terminate else "none: no episode ends early"


def actions(task: Task) -> str:
    """The numbers and the choices that an action consists of."""
    count = task.action_dim - sum(length for _, length in task.choices)
    parts = [f"{count} number{'s' if count > 1 else ''}"] if count else []
    return ", ".join([*parts, *(f"a choice among {max(length, 2)}" for _, length in task.choices)])


def environment(family: Family) -> str:
    """What makes the environments, and with which settings."""
    made: Any = family.environment
    if isinstance(made, str) and made == gymnasium_id(family.name):  # which is shown by itself
        return str(gymnasium.spec(made).entry_point).replace(":", ".")
    if not isinstance(made, MujocoMaker):
        return full_name(made)
    name = full_name(made.environment)
    first = ["the velocity over the last step first in the observation"] if made.last_velocity else []
    return ", ".join([name, *first, *(f"{setting}={value}" for setting, value in made.settings.items())])


def full_name(made: Any) -> str:
    """An id as it is, and where a class or function stands."""
    return made if isinstance(made, str) else f"{made.__module__}.{getattr(made, '__qualname__', made)}"


def about(task: Task) -> str:
    """The words of a task's docstring, without its arguments and markup."""
    words = re.split(r"^(?:Args|Attributes|Raises):", inspect.getdoc(type(task)) or "", flags=re.MULTILINE)[0]
    return " ".join(re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", words).split()).replace("``", "")


def origin(task: Task, what: str) -> str:
    """Whether reward or termination are functions of the task, or learned from the simulator's."""
    if getattr(task, f"learns_{what}", False):
        return "learned from the simulator's"
    method = "reward" if what == "reward" else "terminated"
    return f"computed from states and action by the task's {method}(), for the planner too"


def commands(name: str, family: Family) -> list[str]:
    """Commands to try: with the smallest preset from which such a body learns."""
    from pyro_dynamics.runners.common.configuration import SMALL, Preset, preset_config
    from pyro_dynamics.runners.train import default_name

    task = family.make_task()
    preset: Preset = "cpu" if task.state_dim + task.action_dim > SMALL else "quick"
    run = f"runs/{default_name(preset_config(name, preset))}"
    changing = f"0:{label(family.train[-1])},40:{label(family.train[0])}"
    return [
        f"pyro-dynamics train {name}" + ("" if preset == "quick" else f" --preset {preset}"),
        f"pyro-dynamics adapt {run} --context {quote(label(unseen(family)))}",
        f"pyro-dynamics adapt {run} --schedule {quote(changing)}",
        f"pyro-dynamics evaluate {run}",
    ]


def in_python(name: str, family: Family) -> list[str]:
    """How an environment is made: by its Gymnasium id, if it has one, and as `train` makes it."""
    context = unseen(family)
    values = (context,) if isinstance(context, str) else numbers(context)
    keywords = ", ".join(f"{name}={value!r}" for name, value in zip(family.parameters, values, strict=True))
    registered = name in FAMILIES
    return [
        *([f'gymnasium.make("{gymnasium_id(name)}", {keywords})'] if registered else []),
        f'pyro_dynamics.make("{name}", {context!r})',
    ]


def unseen(family: Family) -> Context:
    """A context for examples: one that was not trained on, from the middle of the test sets."""
    context = family.test_contexts[len(family.test_contexts) // 2]
    return family.parse_context(label(context))  # without the rounding errors of numbers that were computed


if __name__ == "__main__":
    run_as_module("families")
