"""A trained agent in ONE environment of the user's, numpy in and out: act, update, look at the belief."""

import json
import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from xarray import DataTree

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.posterior.datatree import to_datatree, with_parameters
from pyro_dynamics.diagnostics.prediction.forecast import roll_out
from pyro_dynamics.diagnostics.verdict import Verdict
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.drawn_family import DrawnFamily
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import Numbers, as_floats, as_rows
from pyro_dynamics.io.online_state import FILE, save_online
from pyro_dynamics.io.run_folder import RunFolder
from pyro_dynamics.online_belief import OnlineBelief, require_draws, require_level
from pyro_dynamics.online_verdict import judge_online
from pyro_dynamics.processor import computing
from pyro_dynamics.rollouts.stream_state import StreamState
from pyro_dynamics.rollouts.stream_verdict import reached
from pyro_dynamics.tasks.spaces import decide
from pyro_dynamics.transitions import Transitions

REMEMBERED = 10_000
"""Transitions that :meth:`OnlineAgent.to_datatree` can look back on."""
HERE = torch.zeros(1, dtype=torch.long)
"""The index of the one environment."""


@dataclass(frozen=True)
class Prediction:
    """What the model expects of H actions, by n particles: each has a draw of the latent, a member, and its own noise.

    Attributes:
        draws: observations after each action, ``[n, H, S]``.
    """

    draws: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """``[H, S]``."""
        return self.draws.mean(0)

    @property
    def sd(self) -> np.ndarray:
        """``[H, S]``."""
        return self.draws.std(0)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of each entry's interval of this probability, each ``[H, S]``."""
        level = require_level(level)
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high


class OnlineAgent:
    """One dynamics model, a belief about the environment that it is in now, and a planner that uses both.

    Made by :func:`pyro_dynamics.train`, :func:`pyro_dynamics.fit` and :func:`pyro_dynamics.load`. The loop::

        action = agent.act(observation)
        next_observation, reward, terminated, truncated, info = env.step(action)
        agent.update(observation, action, next_observation)

    Args:
        run: the folder of the run that it was trained in.
        config: the run's configuration as plain data, with the beliefs that are used now.
        family: of environments.
        trained: the agents over the environments that were trained on.
        group: the same networks, with a fresh belief about one environment.
        seed: names the random streams.
        threads: processor threads.
        checkpoint: the round whose model it has; None for the newest.
    """

    def __init__(
        self,
        run: RunFolder,
        config: Mapping[str, Any],
        family: Family,
        trained: AgentGroup,
        group: AgentGroup,
        seed: int = 0,
        threads: int = 1,
        checkpoint: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.run, self.config, self.family, self.seed, self.threads = run.path, config, family, seed, threads
        self._run, self._trained, self._group = run, trained, group
        self._stream = StreamState(group, seed)
        self._seen: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=REMEMBERED)
        self._since = 0
        self.updates = 0
        """How many transitions the belief has been updated by since it was the prior."""
        self._warned: set[str] = set()
        self._acted: tuple[np.ndarray, Tensor] = np.empty(0), torch.empty(0)
        """The last action as it was given away, whose memory others may write to, and a copy."""

    @property
    def agent(self) -> Agent:
        """The one agent underneath, with its model, guide and belief as Pyro and torch know them."""
        return self._group.agents[0]

    def act(self, observation: Numbers) -> np.ndarray:
        """Plan from an observation ``[S]`` under the belief as it is now; returns the first action, ``[A]``.

        The action is in the environment's own units and within its bounds.

        Raises:
            UserError: if the observation has another size, or is not finite.
        """
        with computing(self.threads):
            state = self._row(observation, self.agent.task.state_dim, "observation")
            self._warn_of_states(state)
            action = self._group.act(state, HERE, self._stream.draws)
        self._acted = action[0].numpy(), action[0].clone()
        return self._acted[0]

    def update(self, observation: Numbers, action: Numbers, next_observation: Numbers) -> None:
        """Bring one transition into the belief (Eq. 5).

        Args:
            observation: before the action, ``[S]``; as in :meth:`act` and :meth:`predict`, the first one far outside of
                what was trained on is warned of.
            action: what was sent, ``[A]``; the first one far outside of its bounds is warned of.
            next_observation: ``[S]``; at the end of an episode the one that ended it, not the first of the next.

        Raises:
            UserError: if one has another size, or is not finite, if both observations are one array, or if the action
                is the array that :meth:`act` gave, with other numbers.
        """
        task = self.agent.task
        if _one_place(observation, next_observation):
            raise UserError(
                "observation and next_observation are the same array: the environment writes over its observations; "
                "keep a copy of each before the next step"
            )
        given, kept = self._acted
        if _one_place(action, given) and not np.array_equal(given, kept.numpy()):
            raise UserError(
                "action is the array that act() gave, and was written over since, by the environment or by your "
                "program: send a copy, as in env.step(action.copy()), and give here what was sent"
            )
        with computing(self.threads):
            state = self._row(observation, task.state_dim, "observation")
            sent = self._row(action, len(self.agent.action_bounds[0]), "action")
            after = self._row(next_observation, task.state_dim, "next_observation")
            self._warn_of_actions(sent)
            self._warn_of_states(torch.cat([state, after]))
            self._group.observe(state, sent, after, HERE, self._stream.draws)
            if self.agent.belief_dim and bool(self.agent.belief.changed[0]):
                self._since = 0  # the belief is about what comes from here on
        self._seen.append((state, sent, after))
        self.updates, self._since = self.updates + 1, self._since + 1

    def reset(self) -> None:
        """Begin an episode in the same environment: the last plan is forgotten, and the belief stays."""
        self._group.reset()

    def reset_belief(self) -> None:
        """Meet another environment: the belief returns to the prior, and the last plan is forgotten."""
        with computing(self.threads):
            self._group.reset_beliefs()
            self._group.reset()
        self._seen.clear()
        self.updates = self._since = 0

    def set_context(self, context: Any) -> None:
        """Give the true hidden parameter to an oracle; other agents ignore it."""
        with computing(self.threads):
            self._group.set_context([self.family.parse_context(context)])

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of the run's ``metrics.jsonl``: returns and latents of each round and environment."""
        return self._run.metrics()

    @property
    def trained_beliefs(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the latents of the environments that were trained on, each ``[K, d]``."""
        with computing(self.threads):
            mean, sd = self._trained.beliefs()
            return mean.numpy(), sd.numpy()

    @property
    def belief(self) -> OnlineBelief:
        """What is believed about the environment now."""
        agent = self.agent
        with computing(self.threads):
            changed = bool(agent.belief.changed[0]) if agent.belief_dim else False
            means = self._trained.beliefs()[0].numpy()
            posterior = agent.reported_posterior()
        return OnlineBelief(
            posterior, agent.belief_dim, changed, self._since, means, self.family, self._stream.reporting
        )

    def predict(self, observation: Numbers, actions: Numbers, draws: int = 200) -> Prediction:
        """What the model expects of some actions under the belief as it is now.

        Args:
            observation: where they begin, ``[S]``.
            actions: ``[H, A]``, or one ``[A]``; ``[H]`` where an action is one number.
            draws: particles; rounded up to a multiple of the ensemble's members.

        Raises:
            UserError: if the sizes are others, or a number is not finite.
        """
        require_draws(draws)
        size = len(self.agent.action_bounds[0])
        with computing(self.threads):
            start = self._row(observation, self.agent.task.state_dim, "observation")
            rows = as_floats(actions, "actions")
            rows = rows.reshape(-1, 1) if size == 1 and rows.dim() < 2 else rows  # H actions of one number each
            plan = as_rows(rows, size, "each of the actions").detach().clone()
            if not len(plan):
                raise UserError("give at least one action")
            self._warn_of_actions(plan)
            self._warn_of_states(start)
            plan = decide(plan, self.agent.task.choices)
            drawn = roll_out(self.agent, start, plan[None], HERE, draws, self._stream.measuring)
        return Prediction(drawn[:, 0].numpy())

    def to_datatree(self, trained: bool = False, draws: int = 1000) -> DataTree:
        """The posterior for ArviZ, with the hidden parameters that it is decoded to.

        Args:
            trained: the K environments that were trained on, with their training data, in place of the one that the
                agent is in now, with the transitions since the belief was the prior or found a change (at most
                10,000; a belief that forgets weighs them less than ``log_p`` does).
            draws: from each posterior.

        Raises:
            UserError: if there is no latent, no density, or not one transition yet.
        """
        if trained and len(self._trained.agents) > 1:
            raise UserError("each specialist has a model of its own: there is no latent to look at")
        require_draws(draws)
        agent, data = self.agent, None if trained else self.observed()
        if data is None:
            rounds = self._run.transitions()
            # The last round was acted after the training; where it was in new environments, these were inferred by it.
            kept = rounds if isinstance(self.family, DrawnFamily) else rounds[:-1] or rounds
            agent, data = self._trained.agents[0], Transitions.concatenate(kept)
        known = self.family.train if trained else None
        with computing(self.threads):
            tree = to_datatree(
                agent, data, draws, contexts=known, predictive_draws=draws, seed=self.seed, online=not trained
            )
        return with_parameters(tree, self._trained.beliefs()[0].numpy(), self.family)

    def observed(self) -> Transitions:
        """The transitions that the belief is about: since it was the prior, or since it found a change.

        Raises:
            UserError: if there is none.
        """
        return self._rows(self._since)

    def verdict(self) -> Verdict:
        """Whether to believe what is believed now, and why: the same rule and words as of ``adapt`` and ``diagnose``.

        Follows all transitions since the belief was the prior (at most 10,000) once more, which takes about as long as
        their updates did. ``print(agent.verdict())`` has a line for each reason.

        Raises:
            UserError: if there is none.
        """
        seen = self._rows(len(self._seen))
        with computing(self.threads):
            online, expected = self.config["online"], reached(self._run, self.checkpoint)
            return judge_online(self.agent, self._trained, self.family, seen, online, expected, self.seed)

    def _rows(self, newest: int) -> Transitions:
        """The newest of the transitions."""
        if not self._seen:
            raise UserError("the belief is still the prior: update it by a transition first")
        kept = list(self._seen)[-newest:]
        state, action, next_state = (torch.cat(part) for part in zip(*kept, strict=True))
        count = len(state)
        environment = torch.zeros(count, dtype=torch.long)
        return Transitions(state, action, next_state, torch.zeros(count), environment, torch.arange(count))

    def save(self, path: str | Path) -> None:
        """Write a folder that :func:`pyro_dynamics.load` opens: the run, and the belief as it stands.

        In the folder that the agent was loaded from only the belief is written, over one that was saved there before.

        Raises:
            UserError: if something else is there already.
        """
        save_online(self._run, path, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Where the belief stands, the last plan and the random streams: tensors and plain values."""
        return {
            "network": self._trained.fingerprint(),
            "online": json.dumps(self.config["online"], sort_keys=True),
            "checkpoint": self.checkpoint,
            "seed": self.seed,
            "stream": self._stream.state_dict(),
            "seen": [list(row) for row in self._seen],
            "since_change": self._since,
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave.

        Raises:
            UserError: if it is of another network, or of another kind of belief.
        """
        own = self.state_dict()
        if state["network"] != own["network"]:
            raise UserError(
                "the belief that was saved is of another network than this agent's: where the run was trained on "
                f"since, remove {self.run / FILE} to begin at the prior"
            )
        if state["online"] != own["online"]:
            raise UserError("the belief that was saved is of another belief, update or temperature than this agent's")
        self._stream.load_state_dict(state["stream"])
        self._seen.clear()
        self._seen.extend(tuple(row) for row in state["seen"])
        self.seed, self.updates = state["seed"], state["updates"]
        self._since = state["since_change"]

    def reseed(self, seed: int) -> None:
        """Draw from the beginning of the random streams of another seed; the belief and the plan stay."""
        fresh = StreamState(self._group, seed)
        self._stream.draws, self._stream.measuring, self._stream.reporting = (
            fresh.draws,
            fresh.measuring,
            fresh.reporting,
        )
        self.seed = seed

    def _row(self, values: Numbers, size: int, what: str) -> Tensor:
        """A vector as one float32 row ``[1, size]``, a copy: environments may write each over the last one.

        A batch of one is taken too, and a single number for a vector of one.
        """
        row = as_floats(values, what)
        if row.numel() != size or row.dim() > 2 or (row.dim() == 2 and len(row) != 1):
            hint = "; make the environment by pyro_dynamics.make, or by its family's make" if "obs" in what else ""
            raise UserError(f"{what} must be a vector of {size} numbers, not of shape {list(row.shape)}{hint}")
        return as_rows(row.reshape(1, size), size, what).detach().clone()

    def _warn_of_actions(self, rows: Tensor) -> None:
        """Warn of actions ``[H, A]`` far outside of their bounds, once; called by what the user calls."""
        if "actions" not in self._warned and (words := self.agent.far_actions(rows)[1]):
            self._warned.add("actions")
            warnings.warn(
                f"{words}: the network was trained within these alone, and what it says of others means nothing: give "
                "actions in the environment's own unit, as it takes them",
                stacklevel=3,
            )

    def _warn_of_states(self, rows: Tensor) -> None:
        """The same of states ``[H, S]`` far outside of those that were trained on."""
        if "states" not in self._warned and (words := self.agent.far_states(rows)[1]):
            self._warned.add("states")
            warnings.warn(
                f"{words}: what the network says of such states means nothing, and nothing is inferred by them: give "
                "observations in the order and the units of the environment that was trained in, or train on such too",
                stacklevel=3,
            )

    def __repr__(self) -> str:
        kind = self.config["agent"]
        parts = [self.family.name, kind]
        if self.agent.belief_dim:
            online = self.config["online"]
            parts.append(f"guide {self.config['guide']}, belief {online['belief']}, update {online['update']}")
        parts.append(f"run {self.run}")
        parts.append(f"{self.updates} transitions seen" + (f": {self.belief!r}" if self.agent.belief_dim else ""))
        return f"OnlineAgent({'; '.join(parts)})"


def _one_place(first: Any, second: Any) -> bool:
    """Whether two arrays are one object, or numbers in the same memory."""
    if first is second:
        return True
    one, other = _as_memory(first), _as_memory(second)
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other)


def _as_memory(given: Any) -> Any:
    """The numbers of a tensor as an array over the same memory, where numpy has its kind; else what was given."""
    plain = isinstance(given, Tensor) and given.dtype in (torch.float32, torch.float64)
    return given.detach().numpy() if plain and given.layout == torch.strided and given.device.type == "cpu" else given
