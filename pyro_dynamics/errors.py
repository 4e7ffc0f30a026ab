"""The one error that is the user's to mend, and what errors have in common."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake in what the user asked for, reported in one line that says what to do.

    Runners print the line and exit with code 2. Every other exception is a fault of ours and keeps its traceback.
    """


class PartFault(UserError):
    """A part of the user's own raised an error: one line that names the part; its own exception is the cause."""


class EnvironmentFault(PartFault):
    """Somebody's environment did what it must not, reported in one line; its own exception, if any, is the cause."""


@contextmanager
def faults_of(part: str) -> Iterator[None]:
    """What code of the user's own raises becomes a :class:`PartFault`, which names the part.

    Raises:
        PartFault: in the place of every exception but a :class:`UserError`, which names the part itself.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as fault:
        raised = f"{type(fault).__name__}: {fault}" if str(fault).strip() else type(fault).__name__
        raise PartFault(f"{part} raised {first_line(raised)[:300]}") from fault


def first_line(fault: BaseException | str) -> str:
    """What went wrong, for a line of an error: the first one of the words of an exception, or of a text."""
    return _lines(fault)[0].strip()


def last_line(fault: BaseException | str) -> str:
    """The last one, which is where tracebacks, and torch where a state does not fit, say what it was."""
    return _lines(fault)[-1].strip()


def _lines(fault: BaseException | str) -> list[str]:
    if isinstance(fault, str):
        return fault.strip().splitlines() or ["it said nothing"]
    return str(fault).strip().splitlines() or [repr(fault)]


def require_positive(settings: object, *names: str) -> None:
    """Check that the named attributes of a settings object are positive numbers.

    Raises:
        UserError: names the first that is not.
    """
    for name in names:
        value = getattr(settings, name)
        if not 0 < value < float("inf"):  # NaN compares false and is refused too
            raise UserError(f"{name.replace('_', '-')} must be positive and finite, not {value}")


def require_rate(settings: object, *names: str) -> None:
    """Check that the named attributes of a settings object are rates of Adam: in (0, 1].

    Raises:
        UserError: names the first that is not.
    """
    require_positive(settings, *names)
    for name in names:
        if (value := getattr(settings, name)) > 1:
            raise UserError(
                f"{name.replace('_', '-')} must be at most 1, not {value:g}: Adam moves every parameter by about so "
                "much in a step, and 1e-3 is usual"
            )


def require_not_negative(settings: object, *names: str) -> None:
    """Check that the named attributes of a settings object, or each of their numbers, are 0 or more, and finite.

    Raises:
        UserError: names the first that is not.
    """
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if not 0 <= number < float("inf"):  # NaN compares false and is refused too
                raise UserError(f"{name.replace('_', '-')} must be 0 or more, and finite, not {number}")


def require_fraction(settings: object, *names: str) -> None:
    """Check that the named attributes of a settings object lie in [0, 1].

    Raises:
        UserError: names the first that does not.
    """
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value <= 1:  # NaN compares false and is refused too
            raise UserError(f"{name.replace('_', '-')} must lie in [0, 1], not {value}")
