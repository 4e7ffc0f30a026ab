"""The schedule that shows a family's change where none is given."""

from collections.abc import Sequence

from pyro_dynamics.environments.context_text import columns, label
from pyro_dynamics.environments.contexts import Context, numbers
from pyro_dynamics.environments.family import Family
from pyro_dynamics.environments.schedule import Schedule


def example_schedule(family: Family, steps: int) -> Schedule:
    """From the largest test context to the smallest (of names, from the last to the first), after a fifth of the steps.

    Of numbers only those test contexts count that lie in the trained range, where the network can be relied on, as long
    as there are two.

    Args:
        family: the environments.
        steps: of the whole episode.
    """
    first, last = _ends(family)
    changes = ((0, last), (max(steps // 5, 1), first))
    return Schedule.constant(last) if first == last else Schedule(changes, steps)


def in_words(schedule: Schedule, family: Family) -> str:
    """Such a schedule as text: ``gravity changes from 9 to 3 m/s^2 at step 40``."""
    names, unit = " and ".join(family.parameters), f" {family.units[0]}" if len(family.units) == 1 else ""
    if not schedule.last_change:
        return f"{names} is {label(schedule.at(0))}{unit}"
    first, last = (label(context) for _, context in schedule.changes)
    verb = "change" if len(family.parameters) > 1 else "changes"
    return f"{names} {verb} from {first} to {last}{unit} at step {schedule.last_change}"


def _ends(family: Family) -> tuple[Context, Context]:
    for contexts in (_inside(family), family.test_contexts, (family.train[0], *family.test_contexts)):
        different = list(dict.fromkeys(contexts))  # several sets may have the same context
        if family.numeric:
            different.sort(key=numbers)
        if len(different) > 1:
            return different[0], different[-1]
    return family.train[0], family.train[-1]


def _inside(family: Family) -> Sequence[Context]:
    """The test contexts whose parameters all lie in the trained ranges."""
    if not family.numeric:
        return ()
    trained = columns(family.train)
    low, high = trained.min(0), trained.max(0)
    inside = ((low <= columns(family.test_contexts)) & (columns(family.test_contexts) <= high)).all(1)
    return [context for context, yes in zip(family.test_contexts, inside, strict=True) if yes]
