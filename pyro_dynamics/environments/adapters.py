"""Contexts and schedules of other libraries: CARL's dictionaries, NS-Gym's update functions.

Neither library is needed to use these functions: they take the objects of those libraries.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyro_dynamics.environments.contexts import Context, as_context, numbers, parse_number
from pyro_dynamics.environments.schedule import Schedule
from pyro_dynamics.errors import UserError


def from_carl(
    contexts: Mapping[Any, Mapping[str, Any]],
    features: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Context, ...]:
    """The contexts of a family out of CARL's: ``{0: {"m": 1.0, "l": 0.5}, 1: ...}``.

    Args:
        contexts: by their id, as ``CARLEnv(contexts=...)`` takes them.
        features: the context features that are the family's parameters, in that order.
        defaults: values of features that are not in a context, as ``get_default_context()`` gives them. Features that
            are no parameter must have these values.

    Raises:
        UserError: if a feature is missing, no number, or would silently not be applied.

    Example:
        >>> from_carl({0: {"m": 1.0, "l": 0.5}, 1: {"m": 2.0}}, ("m", "l"), {"m": 1.0, "l": 1.0, "g": 10.0})
        ((1.0, 0.5), (2.0, 1.0))
    """
    found = []
    for key, context in contexts.items():
        whole = {**(defaults or {}), **context}
        for name, value in context.items():
            if name not in features and (defaults is None or name not in defaults or defaults[name] != value):
                raise UserError(
                    f"CARL context {key!r} has {name} = {value!r}, which is no parameter of the family: it "
                    "would not be applied. Name it among the features, leave it out, or give it as a default"
                )
        missing = [name for name in features if name not in whole]
        if missing:
            raise UserError(f"CARL context {key!r} has no {', '.join(missing)}, and there is no default")
        found.append(as_context([parse_number(whole[name], name) for name in features]))
    return tuple(found)


def from_ns_gym(updates: Sequence[Any], start: Context, steps: int) -> Schedule:
    """The schedule that NS-Gym's update functions make of a context.

    As in its wrappers, a function gets the current value and the step's number before each step, from 0 on; its own
    scheduler decides whether anything changes.

    Args:
        updates: an ``ns_gym.base.UpdateFn`` for each parameter, or None where one stays.
        start: the context before the first step.
        steps: number of steps; the last context stays.

    Raises:
        UserError: if there are not as many functions as parameters, or a function gives no number.
    """
    values = list(numbers(start))
    if len(updates) != len(values):
        raise UserError(f"{len(values)} parameters need as many NS-Gym update functions (or None), not {len(updates)}")
    contexts = []
    for step in range(steps):
        for index, update in enumerate(updates):
            if update is not None:
                values[index] = parse_number(update(values[index], step)[0], f"NS-Gym's parameter {index}")
        contexts.append(as_context(values))
    return Schedule.of_steps(contexts, steps)
