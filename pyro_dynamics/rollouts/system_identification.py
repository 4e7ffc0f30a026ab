"""System identification: the simulator's hidden parameter, fitted by least squares to the last transitions."""

from collections import deque
from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv
from scipy.optimize import least_squares
from torch import Tensor

from pyro_dynamics.environments import Context, Family, numbers
from pyro_dynamics.environments.context_text import columns
from pyro_dynamics.environments.contexts import as_context
from pyro_dynamics.environments.nominal import nominal_context
from pyro_dynamics.environments.state_copy import put_where
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.rollout import Policy, as_actions
from pyro_dynamics.rollouts.true_dynamics import Simulator, believe

WINDOW = 20
"""Transitions that are fitted."""
EVALUATIONS = 6
"""Of the residuals at most, after each step; the search begins where the last one ended."""
BEYOND = 0.5
"""The search goes so far beyond the trained contexts, as a share of their range."""


class Identification:
    """Fits the context of one environment: what anyone who has a simulator would do.

    The simulator is put where the environment stood before each of the last transitions, so that the full state of the
    simulator is taken as measured, which is more than observations say. A context of names is the trained one, or the
    nominal one, that explains the transitions best.

    Args:
        family: of the environment.
        max_steps: of an episode.
        window: how many transitions are fitted.
    """

    def __init__(self, family: Family, max_steps: int, window: int = WINDOW) -> None:
        self.family = family
        self.context = nominal_context(family)
        self._copy = family.make(self.context, max_steps)
        self._copy.reset(seed=0)
        self._starts: deque[gymnasium.Env] = deque(self._fresh(max_steps) for _ in range(window))
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []  # action and next observation of each of the last

    def _fresh(self, max_steps: int) -> gymnasium.Env:
        made = self.family.make(self.context, max_steps)
        made.reset(seed=0)
        return made

    def before(self, live: gymnasium.Env) -> None:
        """Note where the environment stands; called before each step."""
        self._starts.rotate(-1)
        put_where(self._starts[-1], live)

    def after(self, action: np.ndarray, observation: np.ndarray) -> Context:
        """Take in a transition, and fit; returns the context found.

        Args:
            action: ``[A]``.
            observation: after it, ``[S]``.
        """
        self._seen = [*self._seen, (action, np.asarray(observation, np.float64))][-len(self._starts) :]
        if self.family.numeric:
            self.context = self._fitted()
        else:
            known = dict.fromkeys((*self.family.train, nominal_context(self.family)))
            self.context = min(known, key=lambda context: float((self.residuals(context) ** 2).sum()))
        return self.context

    def _fitted(self) -> Context:
        low, high = bounds(self.family)
        start = np.clip(numbers(self.context), low, high)

        def residuals(place: np.ndarray) -> np.ndarray:
            return self.residuals(as_context(place.tolist()))

        spread = np.where(high > low, high - low, 1.0)
        found = least_squares(
            residuals, start, bounds=(low, high), x_scale=spread, diff_step=1e-4, max_nfev=EVALUATIONS
        )
        return as_context(found.x.tolist())

    def residuals(self, context: Context) -> np.ndarray:
        """Errors of the predicted observations, each in the spread of what was observed, ``[n S]``."""
        believe(self._copy, context)
        wanted = np.stack([observation for _, observation in self._seen])
        scale = wanted.std(0) + 1e-3 * (1 + np.abs(wanted).max(0))
        found = []
        for start, (action, _) in zip(list(self._starts)[-len(self._seen) :], self._seen, strict=True):
            put_where(self._copy, start)
            found.append(self._copy.step(action)[0])
        return ((np.stack(found) - wanted) / scale).ravel()


def identifying(plan: Policy, simulator: Simulator, envs: SyncVectorEnv, models: Sequence[Identification]) -> Policy:
    """Plans in the simulator under the contexts that are fitted on the way.

    Args:
        plan: as :func:`~pyro_dynamics.rollouts.true_dynamics.planning` makes it.
        simulator: in which it plans.
        envs: the K environments.
        models: one for each.
    """
    last: list[np.ndarray] = []

    def policy(state: Tensor) -> Tensor:
        for k, action in enumerate(last):
            believe(simulator.copies[k], models[k].after(action, state[k].numpy()))
        actions = plan(state)
        last[:] = as_actions(actions, envs)
        for model, live in zip(models, envs.envs, strict=True):
            model.before(live)
        return actions

    return policy


def bounds(family: Family) -> tuple[np.ndarray, np.ndarray]:
    """Between which contexts are searched for, each ``[P]``: around those trained on, as far as the simulator goes."""
    trained = columns(family.train)
    low, high = trained.min(0), trained.max(0)
    beyond = BEYOND * (high - low)

    def accepted(ends: np.ndarray) -> bool:
        try:
            family.parse_context(as_context(ends.tolist()))
        except UserError:
            return False
        return True

    return _within(low, low - beyond, accepted), _within(high, high + beyond, accepted)


def _within(inner: np.ndarray, outer: np.ndarray, accepted: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The outer ends, halfway back to the inner ones as often as it takes."""
    for _ in range(10):
        if accepted(outer):
            return outer
        outer = (inner + outer) / 2
    return inner
