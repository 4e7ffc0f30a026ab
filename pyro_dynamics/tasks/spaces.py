"""Which Gymnasium spaces can be planned in."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from pyro_dynamics.errors import UserError


def check_spaces(name: str, observations: Space, actions: Space) -> None:
    """Refuse an environment that the planners do not support.

    Args:
        name: of the environment, for the message.
        observations: its observation space.
        actions: its action space.

    Raises:
        UserError: if they are not boxes of real vectors, or if actions have no bounds; says what to do.
    """
    for kind, space in (("observation", observations), ("action", actions)):
        if not isinstance(space, Box) or len(space.shape) != 1 or space.shape[0] == 0:
            raise UserError(
                f"{name} has the {kind} space {_short(space)}: only a Box of one axis works here; "
                f"{_remedy(kind, space)}"
            )
    if not np.issubdtype(actions.dtype, np.floating):
        raise UserError(
            f"{name} has actions of the type {actions.dtype}: only real numbers are planned; let the environment take "
            "a float32 Box and round it"
        )
    low, high = actions.low, actions.high  # type: ignore[attr-defined]  # a Box, as was checked
    for index in range(len(low)):
        if not (np.isfinite(low[index]) and np.isfinite(high[index]) and low[index] < high[index]):
            raise UserError(
                f"{name}: action {index} lies between {low[index]:g} and {high[index]:g}: the planner searches between "
                "the bounds, so give the environment's action_space finite ones, the lower first"
            )


def _short(space: Space) -> str:
    """The space in one short line."""
    text = " ".join(str(space).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _remedy(kind: str, space: Space) -> str:
    """What to do about a space that cannot be planned in."""
    if isinstance(space, Dict | Tuple):
        if kind == "observation":
            return "wrap the environment in gymnasium.wrappers.FlattenObservation"
        return "let the environment take one vector of real numbers, and split it up in step()"
    if isinstance(space, Discrete | MultiDiscrete | MultiBinary):
        if kind == "action":
            return "let the environment take a real number for each choice, and act on it in step()"
        return "let it observe a vector of real numbers, such as a one-hot code"
    if isinstance(space, Box) and len(space.shape) >= 2 and kind == "observation":
        return (
            "images are not modelled, so let it observe the state (gymnasium.wrappers.FlattenObservation flattens "
            "an array that is no image)"
        )
    return f"wrap the environment so that its {kind} is a vector of real numbers"
