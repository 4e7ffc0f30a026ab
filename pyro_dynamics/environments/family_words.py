"""What a user writes beside the contexts of a family: its name, parameters, units, environment and task."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks import Task


def plain_words(family: Any) -> dict[str, Any]:
    """Parameter, unit and description as texts or tuples of texts, where None stands for no unit.

    Args:
        family: as it was written.

    Raises:
        UserError: naming what is of another kind than a family has.
    """
    if not isinstance(family.name, str) or not family.name:
        raise UserError(f"the name of a family must be a text, not {family.name!r}")
    where = f"family {family.name}"
    words = {what: _texts(where, what, getattr(family, what)) for what in ("parameter", "unit")}
    words["description"] = "" if family.description is None else family.description
    if not isinstance(words["description"], str):
        raise UserError(f"{where}: description must be a text, not {family.description!r}")
    parameters = (words["parameter"],) if isinstance(words["parameter"], str) else words["parameter"]
    if not all(parameters) or not parameters or len(set(parameters)) < len(parameters):
        raise UserError(
            f"{where}: parameter must be a keyword of the environment's constructor, or a tuple of different ones, not "
            f"{family.parameter!r}"
        )
    _require_maker(where, family.environment)
    _require_task(where, family.task)
    if isinstance(family.test, Mapping) and not all(isinstance(one, str) and one for one in family.test):
        raise UserError(f"{where}: the names of test sets must be texts, not {', '.join(map(repr, family.test))}")
    return words


def _texts(where: str, what: str, given: Any) -> str | tuple[str, ...]:
    if given is None and what == "unit":
        return ""
    if isinstance(given, str):
        return given
    found = tuple("" if one is None and what == "unit" else one for one in given) if isinstance(given, Sequence) else ()
    if not isinstance(given, Sequence) or not all(isinstance(one, str) for one in found):
        raise UserError(f"{where}: {what} must be a text, or a tuple of texts, not {given!r}")
    return found


def _require_maker(where: str, environment: Any) -> None:
    if not isinstance(environment, str) and not callable(environment):
        kind = type(environment).__name__
        raise UserError(
            f"{where}: environment must be a Gymnasium id, or a class or function that makes one under each context, "
            f"not an object of type {kind}"
        )


def _require_task(where: str, task: Any) -> None:
    """Refuse a task in the place of what makes one: an object, or a class that needs arguments."""
    kind = task if isinstance(task, type) else type(task)
    if callable(task) and not isinstance(task, Task) and not inspect.isabstract(task):
        try:
            inspect.signature(task).bind()
        except TypeError:
            pass
        except ValueError:  # it does not say what it takes
            return
        else:
            return
    name = kind.__name__ if issubclass(kind, Task) and kind is not Task else "BoxTask"
    raise UserError(
        f"{where}: task is called without arguments and must make a Task: write task=lambda: {name}(...), not {task!r}"
    )


def kind_of(thing: object) -> str:
    """What something is, for a message."""
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"an object of type {type(thing).__name__}"
