"""An environment whose physics hold one named hidden parameter."""

from abc import abstractmethod
from typing import Any, ClassVar

from pyro_dynamics.errors import UserError

Context = float | str
"""The value of a hidden parameter: a number with a unit, or the name of a category."""


class HiddenParameter:
    """Mixin for a Gymnasium environment: read and change its hidden parameter, also in mid-episode.

    The parameter is a constructor argument named by :attr:`parameter`. :attr:`context` is always read back from the
    simulator, never from a remembered value.
    """

    parameter: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse_context(cls, value: Any) -> Context:
        """The context that ``value`` (a number or its text) stands for.

        Raises:
            UserError: if the simulator does not accept it.
        """

    @abstractmethod
    def _write_context(self, context: Any) -> None:
        """Give the context to the simulator."""

    @property
    @abstractmethod
    def context(self) -> Context:
        """What the simulator uses now."""

    def set_context(self, value: Any) -> None:
        """Change the hidden parameter from the next step on, and check that the simulator took it.

        Raises:
            UserError: if the simulator does not accept the value.
            RuntimeError: if the simulator holds another value afterwards.
        """
        wanted = self.parse_context(value)
        self._write_context(wanted)
        if isinstance(wanted, float):
            taken = isinstance(self.context, float) and abs(self.context - wanted) <= 1e-6 * max(1.0, abs(wanted))
        else:
            taken = self.context == wanted
        if not taken:
            raise RuntimeError(f"the simulator did not take {self.parameter} = {wanted!r}: it holds {self.context!r}")


def parse_number(value: Any, name: str, low: float, high: float, unit: str) -> float:
    """``value`` as a float within the open interval (low, high).

    Raises:
        UserError: if it is not a number or lies outside.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be a number of {unit}, not {value!r}") from None
    if not low < number < high:  # NaN compares false and lands here too
        raise UserError(f"{name} must lie between {low:g} and {high:g} {unit}, not {value}")
    return number
