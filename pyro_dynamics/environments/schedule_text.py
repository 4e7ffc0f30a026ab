"""Schedules as text, on the command line and in files."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyro_dynamics.data_files import at_home, parse_json, read_text
from pyro_dynamics.environments.context_text import exact
from pyro_dynamics.environments.contexts import Context
from pyro_dynamics.environments.schedule import Schedule
from pyro_dynamics.environments.schedule_generators import ramp, random_walk, sine
from pyro_dynamics.errors import UserError

FORMS = {
    "": "STEP:CONTEXT,STEP:CONTEXT (for example 0:-6,500:6)",
    "ramp": "ramp:STEP:CONTEXT,STEP:CONTEXT (for example ramp:0:-6,200:-6,400:6)",
    "sine": "sine:LOW:HIGH:PERIOD (for example sine:-6:6:200)",
    "walk": "walk:START:SD:LOW:HIGH or walk:START:SD:LOW:HIGH:SEED (for example walk:0:0.5:-9:9)",
    "file": "file:PATH of a CSV file with lines of step,context, or of a JSON list of [step, context]",
}

SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""What some programs put between cells in place of commas."""

Parse = Callable[[Any], Context]


def parse_schedule(text: str, parse: Parse, steps: int) -> Schedule:
    """The schedule that ``text`` stands for, in one of :data:`FORMS`.

    A comma begins another change where a step and a colon follow it, so that contexts of several numbers can be
    written in a schedule too: ``0:1,0.5,500:2,0.5``.

    Args:
        text: as given by the user.
        parse: reads a context.
        steps: length of a sine or a random walk.

    Raises:
        UserError: if the text, a file or a context cannot be read.
    """
    kind, _, rest = text.partition(":")
    if kind not in FORMS or not kind:
        return Schedule(_points(text, "", parse))
    if kind == "file":
        return Schedule(tuple((step, parse(value)) for step, value in _read(at_home(Path(rest)))))
    if kind == "ramp":
        return ramp([(step, _number(context, text)) for step, context in _points(rest, kind, parse)])
    parts = rest.split(":")
    try:
        if kind == "sine":
            low, high, period = parts
            return sine(_number(parse(low), text), _number(parse(high), text), float(period), steps)
        start, sd, low, high = parts[:4]
        bounds = _number(parse(low), text), _number(parse(high), text)
        (seed,) = parts[4:] or ["0"]
        return random_walk(_number(parse(start), text), _size(sd), *bounds, steps, int(seed))
    except (TypeError, ValueError):
        raise _misread(text, kind) from None


def schedule_text(schedule: Schedule) -> str:
    """The text that :func:`parse_schedule` reads as this schedule."""
    return ",".join(f"{step}:{exact(context)}" for step, context in schedule.changes)


def _points(text: str, kind: str, parse: Parse) -> tuple[tuple[int, Context], ...]:
    points = []
    for item in re.split(r",(?=\s*\d+\s*:)", text):
        step, colon, context = item.partition(":")
        if not colon or not step.strip().isdecimal() or not context.strip() or ":" in context:
            raise _misread(text, kind)
        points.append((int(step), parse(context.strip())))
    return tuple(points)


def _number(context: Context, text: str) -> Context:
    if isinstance(context, str):
        raise UserError(f"the schedule {text!r} needs numbers, and {context!r} is a name: use steps or a file")
    return context


def _size(text: str) -> Context:
    """Standard deviations: a number for each parameter, which need not be a context."""
    values = [float(part) for part in text.split(",")]
    return values[0] if len(values) == 1 else tuple(values)


def _misread(text: str, kind: str) -> UserError:
    return UserError(
        f"a schedule reads {FORMS[kind]}, not {text!r}; see docs/reference/families.md for its other forms"
    )


def _read(path: Path) -> list[tuple[int, Any]]:
    """The (step, context) pairs of a file, contexts as it has them."""
    try:
        content = read_text(path)
    except (OSError, ValueError) as fault:
        raise UserError(f"the schedule {path} cannot be read: {fault}") from None
    try:
        if path.suffix == ".json":
            return [_pair(*row) for row in parse_json(content)]
        return [_pair(float(row[0]), row[1] if len(row) == 2 else row[1:]) for row in _cells(path, content)]
    except (TypeError, ValueError, IndexError, OverflowError, csv.Error):
        raise UserError(f"the schedule {path} must be {FORMS['file'].removeprefix('file:PATH of ')}") from None


def _cells(path: Path, content: str) -> list[list[str]]:
    """The rows of a CSV, without a line of names, and without the empty cells that spreadsheets put after the others.

    Raises:
        UserError: if it is separated by other marks than commas.
    """
    read = ([cell.strip() for cell in row] for row in csv.reader(content.splitlines(), skipinitialspace=True))
    rows = [row for row in (row[: _filled(row)] for row in read) if row]
    if rows and (mark := next((name for sign, name in SEPARATORS.items() if sign in rows[0][0]), "")):
        raise UserError(f"the schedule {path} is separated by {mark}: save it with commas, and numbers with points")
    return rows[1:] if rows and not _is_number(rows[0][0]) else rows


def _filled(row: list[str]) -> int:
    """How many cells there are up to the last that holds something."""
    return max((place + 1 for place, cell in enumerate(row) if cell), default=0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pair(step: Any, context: Any) -> tuple[int, Any]:
    if isinstance(step, float) and step != int(step):
        raise ValueError
    return int(step), tuple(context) if isinstance(context, list) else context
