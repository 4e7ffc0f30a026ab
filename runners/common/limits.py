"""Upper limits of a configuration's sizes, checked before anything of that size is made."""

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, TypeVar

import tyro

from pyro_dynamics.errors import UserError
from pyro_dynamics.models import EnsembleConfig

T = TypeVar("T")

LARGEST_COUNT = 1_000_000
"""Of anything: layers' units, candidates, particles, components, steps of an episode."""
LARGEST_SEED = 2**63
LONGEST = 100
"""Entries of a list: layers, contexts."""
LARGEST_PRODUCT = 200_000_000
"""Weights of an ensemble (0.8 GB); candidates x particles x horizon of a plan."""
UNBOUNDED = ("seed", "min_steps", "rounds", "epochs", "keep")
"""Limits of settings that cost time and no memory, or are names."""
UNNAMED = ("run", "online")
"""Groups of flags that have no name before their own."""


def read_flags(kind: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """The flags of a command, none of which is larger than anything could be.

    Args:
        kind: their dataclass.
        command: its name.
        arguments: of the command line.
        default: values of flags that are not given, by default those of the dataclass.

    Raises:
        UserError: naming the first that is too large.
    """
    how: dict[str, Any] = {} if default is None else {"default": default}
    flags = tyro.cli(kind, prog=f"pyro-dynamics {command}", args=arguments, **how)
    check_limits(flags)
    return flags


def check_limits(config: Any, name: str = "") -> None:
    """Refuse sizes that no machine could hold, in a dataclass and all dataclasses in it.

    Args:
        config: the dataclass.
        name: of it, for the message.

    Raises:
        UserError: naming the first setting that is too large or negative.
    """
    for one in fields(config):
        value, where = getattr(config, one.name), f"{name}{one.name}".replace("_", "-")
        if is_dataclass(value):
            check_limits(value, "" if one.name in UNNAMED else f"{one.name.removesuffix('_config')}.")
            continue
        values = value if isinstance(value, tuple) else (value,)
        names = one.name in UNBOUNDED or (one.name == "seeds" and isinstance(value, tuple))
        largest = LARGEST_SEED if names else LARGEST_COUNT
        counts = [part for part in values if isinstance(part, int) and not isinstance(part, bool)]
        if not names and sum(isinstance(part, int | float) for part in values) > LONGEST:
            raise UserError(f"{where} has {len(values)} entries, more than the {LONGEST} that it may have")
        wrong = [part for part in counts if not -LARGEST_SEED <= part < largest]
        if wrong:
            raise UserError(f"{where} is {_short(wrong[0])}, and must be below {largest}")
    if isinstance(config, EnsembleConfig):
        _require_product(
            f"{name}members x {name}hidden", config.members * sum(a * b for a, b in pairwise(config.hidden))
        )
        if min(config.hidden, default=1) < 1:
            raise UserError(f"{name}hidden must be positive, not {min(config.hidden)}")


def check_plan_limits(candidates: int, particles: int, horizon: int) -> None:
    """Refuse plans whose predicted trajectories no machine could hold; raises :class:`UserError`."""
    _require_product("candidates x particles x horizon", candidates * particles * horizon)


def _require_product(name: str, count: int) -> None:
    if count > LARGEST_PRODUCT:
        raise UserError(f"{name} makes {_short(count)} numbers, more than the {LARGEST_PRODUCT} that fit into memory")


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**15 else f"about 10^{int(math.log10(abs(number)))}"
