"""What every planner is: a search over action sequences for K problems at once, warm-started from the last one."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from pyro_dynamics.contracts import Settings
from pyro_dynamics.registry import Registry
from pyro_dynamics.tasks.spaces import Choices

Objective = Callable[[Tensor], Tensor]
"""Returns ``[K, C]`` of candidate action sequences ``[K, C, H, A]`` in [-1, 1]."""


class Planner:
    """Searches, at every step of an episode, for the actions with the highest return.

    A kind of planner writes :meth:`plan`, and leaves in ``mean`` where the next step's search starts.

    Args:
        config: the planner's own settings; its defaults if not given.
    """

    Config: ClassVar[type]
    """The frozen settings of the planner."""
    choices: Choices = ()
    """Which entries of an action stand for discrete ones: only the place of the largest entry of a code counts."""

    def __init__(self, config: Settings | None = None) -> None:
        self.config: Settings = config if config is not None else self.Config()
        self.reset()

    def reset(self) -> None:
        """Forget the last plan, at the start of an episode."""
        self.mean: Tensor | None = None

    def plans(self) -> dict[str, Tensor | None]:
        """What is remembered from step to step, by the names of the attributes."""
        return {"mean": self.mean}

    def plan(
        self, objective: Callable[[], Objective], shape: tuple[int, int, int], generator: torch.Generator
    ) -> Tensor:
        """The best actions found; a return that is not a finite number is the worst return.

        Where no return is finite, the search stays where it started.

        Args:
            objective: called once in each iteration, for a fresh objective (new particles, new latents).
            shape: problems K, horizon H and action size A; when it changes, the last plan is forgotten.
            generator: source of all draws.

        Returns:
            ``[K, H, A]`` in [-1, 1].
        """
        raise NotImplementedError

    def reset_plans(self, problems: Tensor) -> None:
        """Search anew where the world has changed: the next search starts from 0, the middle of the bounds.

        Every planner restores its spread at every step, and clips it at the bounds; what still narrows a search is a
        warm start near a bound, or in the valley of a plan that no longer works.

        Args:
            problems: which of the K, booleans ``[K]``.
        """
        if self.mean is not None:
            self.mean = self.mean.masked_fill(problems[:, None, None], 0.0)

    def start(self, shape: tuple[int, int, int], generator: torch.Generator) -> Tensor:
        """Where this step's search starts, ``[K, H, A]``: the last plan, or 0 after a reset."""
        if self.mean is None or self.mean.shape != shape:
            self.reset()
            self.mean = torch.zeros(shape, device=generator.device)
        return self.mean


PLANNERS: Registry[Planner] = Registry("planner", Planner, writes=(("plan",),), takes=("config",))
"""The planners by the name that a user types."""


def shifted(plan: Tensor, last: Tensor) -> Tensor:
    """Plans ``[..., H, A]`` a step later: without their first action, and with ``last`` ``[..., 1, A]`` at the end."""
    return torch.cat([plan[..., 1:, :], last], dim=-2)


def in_units(actions: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Actions of [-1, 1], ``[..., A]``, mapped to the bounds, each ``[A]``."""
    return low + (actions + 1) / 2 * (high - low)


def worst_if_not_finite(returns: Tensor) -> Tensor:
    """Returns with every NaN and infinity as the worst, so that none of them can be an elite."""
    return torch.where(returns.isfinite(), returns, -torch.inf)


def any_finite(returns: Tensor) -> Tensor:
    """Which problems have a candidate with a finite return at all, ``[K, 1, 1]``; the others keep their plan."""
    return returns.isfinite().any(1)[:, None, None]
