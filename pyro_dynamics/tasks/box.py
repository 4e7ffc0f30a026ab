"""The task of any environment whose observations and actions vectors of real numbers can stand for."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.tasks.angles import Angles
from pyro_dynamics.tasks.functions import Function, name_of
from pyro_dynamics.tasks.observation_wrappers import AppendOutcome, ContextReward
from pyro_dynamics.tasks.spaces import action_vector, check_spaces, choices_of, entry_names, observation_vector
from pyro_dynamics.tasks.task import Task
from pyro_dynamics.tasks.termination_classifier import ending_sizes, ends, fit_ending

FOLLOWS = 10.0
"""A target's statistics are taken anew where its spread over all data is so many times theirs, or so small a part."""


class BoxTask(Task):
    """The state is the observation, the network predicts its change, and the reward is given or learned.

    Targets are standardised with statistics of the first training data, so that dimensions of very different scales are
    learned equally well; one that is constant in them is left as it is. Where all data have ten times that spread
    later, or a tenth of it, that target's statistics follow, and its share of the network's last layer with them.

    An angle that is named is given to the network as cosine and sine, and its target is the shortest turn.

    A learned reward or termination is appended to the observation by :meth:`wrap`, and is no input of the network. The
    network predicts the reward with the change of the observation, given the latent, and the planner reads it from the
    predicted next state. A termination is learned by a classifier of the observation reached.

    The planner does not know the context. A reward ``(state, action, next_state, context)`` is therefore given by the
    simulator, in place of the environment's own, and the model learns it; a context that the agent may know (a goal,
    say) belongs in the observation instead.

    Args:
        env: an environment, for its spaces.
        reward: a function of ``(state [..., S], action [..., A], next_state [..., S])`` giving ``[...]``, or of these
            and the context, or ``"learned"``. An environment's own function of numpy arrays goes into
            :func:`~pyro_dynamics.tasks.on_numpy`.
        terminated: such a function giving booleans, or ``"learned"``, or None for episodes that do not end early.
        names: name and unit of each entry of an observation, for figures; those of a dictionary of observations are
            known.
        angles: entries of an observation that are angles, in radians, or in degrees if their bounds are 360 apart; for
            others a dictionary from entry to the size of a whole turn.

    Raises:
        UserError: if the spaces or the functions cannot be planned with.
    """

    def __init__(
        self,
        env: Any,
        reward: Function | Literal["learned"] = "learned",
        terminated: Function | Literal["learned"] | None = None,
        names: Sequence[str] = (),
        angles: Sequence[int] | Mapping[int, float] = (),
    ) -> None:
        name = type(getattr(env, "unwrapped", env)).__name__
        if not hasattr(env, "observation_space") or not hasattr(env, "action_space"):
            raise UserError(f"BoxTask needs an environment, with its spaces, not {env!r}")
        check_spaces(name, env.observation_space, env.action_space)
        actions, observations = action_vector(env.action_space), observation_vector(env.observation_space)
        entries = len(observations.low)
        if names and len(names) != entries:
            raise UserError(f"{name} observes {entries} numbers, and {len(names)} names were given")
        names = names or entry_names(env.observation_space)
        self._context_reward = None
        if reward != "learned" and _takes_context(reward, "reward"):
            self._context_reward, reward = reward, "learned"
        if terminated not in (None, "learned") and _takes_context(terminated, "terminated"):
            raise UserError('the planner does not know the context: give a termination without it, or say "learned"')
        self._reward, self._terminated = reward, terminated
        self.learns_reward, self.learns_termination = reward == "learned", terminated == "learned"
        self.can_terminate = terminated is not None
        self.angles = Angles(angles, observations)
        self.observed_dim, self.feature_dim = entries, self.angles.feature_dim
        self.action_dim, self.choices = len(actions.low), choices_of(actions)
        self.target_dim = entries + self.learns_reward
        self.state_dim = self.target_dim + self.learns_termination
        if names:
            reward_name = ["reward"] * self.learns_reward
            self.state_names = (*names, *reward_name, *["termination"] * self.learns_termination)
            targets = (*(f"change of {one}" for one in names), *reward_name)
            self.target_names = tuple(f"{one}, standardised" for one in targets)
        self._start = {
            "is change": torch.tensor([1.0] * entries + [0.0] * self.learns_reward),
            "mean": torch.zeros(self.target_dim),
            "scale": torch.ones(self.target_dim),
        }
        self.load_state_dict({})

    def wrap(self, env: gymnasium.Env) -> gymnasium.Env:
        """The environment with this task's reward, and with learned quantities in its observation."""
        if self._context_reward is not None:
            env = ContextReward(env, self._context_reward)
        if self.learns_reward or self.learns_termination:
            env = AppendOutcome(env, self.learns_reward, self.learns_termination)
        return env

    def observed(self, state: Tensor) -> Tensor:
        """What the environment itself observes, without what is appended: ``[..., S] -> [..., observed_dim]``."""
        return state[..., : self.observed_dim]

    def features(self, state: Tensor) -> Tensor:
        observed = self.observed(state)
        return self.angles.features(observed) if self.angles.entries else observed

    def targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        known = self._known(state)
        return (self._raw_targets(state, next_state) - known["mean"]) / known["scale"]

    def next_state(self, state: Tensor, target: Tensor) -> Tensor:
        """The inverse of :meth:`targets`, but for an appended termination, which is 0."""
        known = self._known(state)
        found = known["is change"] * state[..., : self.target_dim] + (known["mean"] + known["scale"] * target)
        found = self.angles.wrapped(found) if self.angles.low else found
        return torch.cat([found, torch.zeros_like(found[..., :1])], dim=-1) if self.learns_termination else found

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        if callable(self._reward):
            return self._reward(self.observed(state), action, self.observed(next_state))
        return next_state[..., self.observed_dim]

    def terminated(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        if callable(self._terminated):
            return self._terminated(self.observed(state), action, self.observed(next_state))
        known = self._known(next_state)
        if not self.learns_termination:
            return super().terminated(state, action, next_state)
        if "ending.mean" not in known:  # not trained yet, or no episode ended: use the appended one
            return next_state[..., -1] > 0.5
        return ends(known, self.features(next_state))

    @torch.no_grad()
    def fit(self, state: Tensor, next_state: Tensor) -> tuple[Tensor, Tensor] | None:
        """Take the targets' statistics from the data, and learn terminations from them, ``[N, S], [N, S]``.

        The first data decide, until all data have ten times or a tenth of that spread: a sensor may only tremble at
        first. A standard deviation within the rounding error of an observation becomes 1, until it moves.
        """
        raw = self._raw_targets(state, next_state).double()
        scale, mean = torch.std_mean(raw, dim=0, correction=0)
        rounding = torch.finfo(torch.float32).eps * torch.maximum(state.abs(), next_state.abs()).amax(0)
        still = scale <= rounding[: self.target_dim]
        found = {"mean": mean.float(), "scale": torch.where(still, torch.ones_like(scale), scale).float()}
        before, change = self._learned, None
        if before:
            ratio = found["scale"] / before["scale"]
            moves = ~still & ((ratio > FOLLOWS) | (ratio < 1 / FOLLOWS) | (before["scale"] == 1))  # 1: was still
            found = {name: torch.where(moves, value, before[name]) for name, value in found.items()}
            shift = (before["mean"] - found["mean"]) / found["scale"]
            change = (shift, before["scale"] / found["scale"]) if moves.any() else None
        if self.learns_termination:
            found |= fit_ending(self.features(next_state), next_state[..., -1] > 0.5)
        self.load_state_dict(found)
        return change

    def state_dict(self) -> dict[str, Tensor]:
        return self._learned

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        refuse_other_shapes(state, self)
        self._learned = dict(state)
        self._on: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = {}

    def _raw_targets(self, state: Tensor, next_state: Tensor) -> Tensor:
        """The observation's change and the reward, each in its own unit."""
        is_change = self._known(state)["is change"]
        change = next_state[..., : self.target_dim] - is_change * state[..., : self.target_dim]
        return self.angles.shortest(change) if self.angles.entries else change

    def _known(self, like: Tensor) -> dict[str, Tensor]:
        """What was learned, with the type and device of ``like``; converted once."""
        key = (like.device, like.dtype)
        if key not in self._on:
            with torch.inference_mode(False):
                known = {**self._start, **self._learned}
                self._on[key] = {name: value.to(like.device, like.dtype) for name, value in known.items()}
        return self._on[key]


def refuse_other_shapes(state: Mapping[str, Any], task: BoxTask) -> None:
    """Raises ValueError unless what a checkpoint says was learned is what a task of these sizes learns."""
    sizes: dict[str, tuple[int, ...]] = dict.fromkeys(("mean", "scale"), (task.target_dim,))
    ending = ending_sizes(task.feature_dim) if task.learns_termination else {}
    if state and (set(state) & set(ending)) not in (set(), set(ending)):
        raise ValueError("the task has learned a part of a termination")
    for name, value in state.items():
        if not isinstance(value, Tensor) or tuple(value.shape) != (sizes | ending).get(name):
            raise ValueError(f"the task learns no {str(name)[:40]} of the shape {list(getattr(value, 'shape', []))}")


def _takes_context(function: Any, what: str) -> bool:
    """Whether a function takes the context in addition to state, action and next state.

    Raises:
        UserError: if it is no function, or takes fewer or more.
    """
    if not callable(function):
        raise UserError(f'{what} must be a function of (state, action, next_state) or "learned", not {function!r}')
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return False
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in places)
    if needed > 4 or len(places) < 3:
        raise UserError(
            f"the {what} function {name_of(function)} takes {needed} arguments: it gets (state, action, next_state)"
        )
    return needed == 4
