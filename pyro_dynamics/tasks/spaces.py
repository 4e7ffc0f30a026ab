"""Which Gymnasium spaces can be planned in, and the vectors that stand for them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.spaces.utils import flatten_space
from torch import Tensor

from pyro_dynamics.errors import UserError

Choices = tuple[tuple[int, int], ...]
"""The first entry and the length of every one-hot code in a vector of actions; a code of one entry is 0 or 1."""

LONGEST_CODE = 10_000
"""Entries of a one-hot code, for each of which the network has an input."""
COARSE = 1e-3
"""Share of the distance between the bounds of an action that the steps of float32 must not exceed."""


class ActionVector(Box):
    """The vector of real numbers in which the actions of another space are planned.

    Args:
        space: of the environment's own actions: boxes of any shape, discrete choices, dictionaries and tuples of them.
    """

    def __init__(self, space: Space) -> None:
        flat: Any = flatten_space(space)
        dtype: Any = flat.dtype if np.issubdtype(flat.dtype, np.floating) else np.float32
        super().__init__(flat.low.astype(dtype), flat.high.astype(dtype), dtype=dtype)
        found, first = [], 0
        for _, leaf in leaves(space):
            for count in _codes(leaf):
                found += [(first, count)] if not isinstance(leaf, Box) else []
                first += count
        self.choices: Choices = tuple(found)

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """Actions that the environment has: discrete ones as their one-hot codes."""
        drawn: Any = super().sample(mask, probability)
        return decide(torch.from_numpy(drawn), self.choices).numpy()


def check_spaces(name: str, observations: Space, actions: Space) -> None:
    """Refuse an environment that the planners do not support.

    Args:
        name: of the environment, for the message.
        observations: its observation space.
        actions: its action space.

    Raises:
        UserError: if they have parts that no vector of real numbers stands for, or if actions have no bounds; says
            what to do.
    """
    for kind, space in (("observation", observations), ("action", actions)):
        for where, leaf in leaves(space):
            trouble = _trouble(kind, leaf)
            if trouble:
                part = f"{kind} space" + (f" (at {where})" if where else "")
                raise UserError(f"{name} has the {part} {_short(leaf)}: {trouble}")
        if not any(True for _ in leaves(space)):
            raise UserError(f"{name} has the {kind} space {_short(space)}, which is empty: give it one entry at least")
    bounds: Any = flatten_space(actions)
    for index, (low, high) in enumerate(zip(bounds.low, bounds.high, strict=True)):
        if words := _trouble_of_bounds(float(low), float(high)):
            between = f"action {index} lies between {low:.9g} and {high:.9g}"
            raise UserError(f"{name}: {between}: the planner searches between the bounds, {words}")


def _trouble_of_bounds(low: float, high: float) -> str:
    """Why no actions can be planned between two bounds, and what to do; nothing where they can."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        cure = "" if np.isfinite(low) or np.isfinite(high) else " (gymnasium.wrappers.ClipAction takes them off)"
        return f"so give the environment's action_space finite ones, the lower first{cure}"
    if high - low > float(np.finfo(np.float32).max):
        return "and these are further apart than float32 can say: give the bounds that the actuator has"
    if np.spacing(np.float32(max(abs(low), abs(high)))) > COARSE * (high - low):
        return "and float32 has a few numbers only between these: let the environment take actions from another origin"
    return ""


def is_vector(space: Space) -> bool:
    """Whether a space is a box of one axis, so that nothing has to be flattened."""
    return isinstance(space, Box) and len(space.shape) == 1


def observation_vector(space: Space) -> Box:
    """The space of observations as vectors, in the order of Gymnasium's ``FlattenObservation``."""
    return space if isinstance(space, Box) and is_vector(space) else flatten_space(space)  # type: ignore[return-value]


def action_vector(space: Space) -> Box:
    """The space in which actions are planned; with ``choices``, if any of them are discrete."""
    return space if isinstance(space, Box) and is_vector(space) else ActionVector(space)


def choices_of(space: Space) -> Choices:
    """The one-hot codes in a vector of actions."""
    return getattr(space, "choices", ())


def decide(actions: Tensor, choices: Choices) -> Tensor:
    """Actions ``[..., A]`` in which each one-hot code has 1 at its largest entry (the first of equals), and else 0."""
    if not choices:
        return actions
    actions = actions.clone()
    for first, count in choices:
        code = actions[..., first : first + count]
        if count == 1:
            code.copy_(code > 0.5)
        else:
            code.copy_(code.new_zeros(code.shape).scatter_(-1, code.argmax(-1, keepdim=True), 1.0))
    return actions


def within_float32(space: Any) -> tuple[Tensor, Tensor]:
    """The bounds of a box, each ``[A]``, not past them by float32's rounding: 0.1 of float64 is 0.099999994."""
    low, high = (np.asarray(bound, np.float32) for bound in (space.low, space.high))
    low = np.where(low < space.low, np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > space.high, np.nextafter(high, np.float32(-np.inf)), high)
    return torch.from_numpy(low), torch.from_numpy(high)


def entry_names(space: Space) -> tuple[str, ...]:
    """A name for each entry of a vector of observations; none where the space itself has no names."""
    if isinstance(space, Box):
        return ()
    found: list[str] = []
    for where, leaf in leaves(space):
        name = where or "observation"
        if isinstance(leaf, Discrete):
            found += [f"{name} = {leaf.start + value}" for value in range(int(leaf.n))]
        elif isinstance(leaf, MultiDiscrete):
            codes = [(f"{name}[{index}]", count) for index, count in enumerate(_codes(leaf))]
            found += [f"{one} = {value}" for one, count in codes for value in range(count)]
        else:
            count = int(np.prod(leaf.shape or ()))
            found += [name] if count == 1 else [f"{name}[{index}]" for index in range(count)]
    return tuple(found)


def leaves(space: Space, where: str = "") -> Iterator[tuple[str, Space]]:
    """The spaces in a dictionary or tuple of spaces, each with its place such as ``arm.angle`` or ``arm.0``."""
    parts = space.spaces.items() if isinstance(space, Dict) else enumerate(getattr(space, "spaces", ()))
    if not isinstance(space, Dict | Tuple):
        yield where, space
        return
    for key, part in parts:
        yield from leaves(part, f"{where}.{key}" if where else str(key))


def _codes(leaf: Space) -> list[int]:
    """The length of each number or one-hot code that a space without parts is flattened to."""
    if isinstance(leaf, Discrete):
        return [int(leaf.n)]
    if isinstance(leaf, MultiDiscrete):
        return [int(count) for count in leaf.nvec.ravel()]
    return [1] * int(np.prod(leaf.shape or ()))


def _short(space: Space) -> str:
    """The space in one short line."""
    text = " ".join(str(space).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _trouble(kind: str, leaf: Space) -> str:
    """Why a space without parts cannot be planned in, and what to do; empty where it can."""
    if not isinstance(leaf, Box | Discrete | MultiDiscrete | MultiBinary):
        return f"no vector stands for it, so wrap the environment so that its {kind} is a vector of real numbers"
    if not _codes(leaf):
        return "it is empty: give it one entry at least"
    if isinstance(leaf, Discrete | MultiDiscrete) and max(_codes(leaf)) > LONGEST_CODE:
        return f"a one-hot code of {max(_codes(leaf))} entries is too long to be learned (at most {LONGEST_CODE})"
    if not isinstance(leaf, Box):
        alone = kind == "action" and not isinstance(leaf, MultiBinary) and 1 in _codes(leaf)
        return "a choice among one is none: take it out of the action" if alone else ""
    if kind == "action":
        if np.issubdtype(leaf.dtype, np.floating):
            return ""
        return (
            f"only real numbers and discrete choices are planned, not {leaf.dtype}: let the environment take a float32 "
            "Box and round it"
        )
    if len(leaf.shape) >= 3 or (len(leaf.shape) == 2 and leaf.dtype == np.uint8):
        return (
            "images are not modelled, so let it observe the state (gymnasium.wrappers.FlattenObservation flattens an "
            "array that is no image)"
        )
    return ""
