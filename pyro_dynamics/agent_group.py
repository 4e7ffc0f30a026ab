"""The agents of a run: one for all environments, or one for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import as_indices, as_rows
from pyro_dynamics.inference.beliefs.member_mixture import own_log_prob
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions


class AgentGroup:
    """Agents that share out K environments: a latent agent or a generalist has all of them, a specialist one.

    Args:
        agents: the agents.
        shares: for each agent, the environments that are its own, in the order of its latents.
    """

    def __init__(self, agents: Sequence[Agent], shares: Sequence[Sequence[int]]) -> None:
        self.agents, self.shares = list(agents), [list(share) for share in shares]

    def reset(self) -> None:
        """Forget the last plans, at the start of an episode."""
        for agent in self.agents:
            agent.controller.reset()

    def reset_beliefs(self) -> None:
        """Return to the first beliefs, where a change is reported."""
        for agent in self.agents:
            agent.belief.reset()

    def train(self, data: Transitions, generator: torch.Generator, on_epoch: Callable[[int, float], None]) -> None:
        """Each agent learns from the data of its own environments (line 4 of Algorithm 1), if there are any."""
        for agent, share in zip(self.agents, self.shares, strict=True):
            own = data.of(share)
            if len(own):  # a specialist's environment may have broken before its first step
                agent.train(own, generator, on_epoch)

    def forget_population(self) -> None:
        """Let beliefs about new environments begin at the models' own prior, not at what was learned."""
        for agent in self.agents:
            if hasattr(agent.model, "set_population"):
                agent.model.set_population(None)

    def calibrate(self, trained: Transitions, new: Transitions, generator: torch.Generator) -> None:
        """Each agent makes its predicted noise right on new episodes of its own environments (see :class:`Agent`)."""
        for agent, share in zip(self.agents, self.shares, strict=True):
            agent.calibrate(trained.of(share), new.of(share), generator)

    def extend(self, more: "AgentGroup") -> None:
        """Become a group over more environments, of which the first are those of now: all that was learned stays.

        Args:
            more: fresh agents of the same configuration.
        """
        for agent, fewer in zip(more.agents, self.agents, strict=True):
            agent.take_over(fewer)
        self.agents, self.shares = more.agents, more.shares

    def infer_new(self, data: Transitions, first: int) -> None:
        """Each agent infers the latents of the environments from number ``first`` on by their transitions alone.

        All agents must share all environments: a specialist has no other than its own.
        """
        for agent in self.agents:
            agent.infer_new(data, first)

    def set_context(self, contexts: Sequence[Any]) -> None:
        """The true context of every environment in order, which oracles take over; other agents ignore them."""
        for agent, share in zip(self.agents, self.shares, strict=True):
            agent.set_context([contexts[k] for k in share])

    def act(self, state: Tensor, environment: Tensor, generator: torch.Generator) -> Tensor:
        """Planned actions ``[B, A]`` in states ``[B, S]`` of environments ``[B]``."""
        (state,), environment = self._given(environment, state)
        parts = [(rows, agent.act(state[rows], local, generator)) for agent, rows, local in self._split(environment)]
        return _join(parts)

    def observe(
        self, state: Tensor, action: Tensor, next_state: Tensor, environment: Tensor, generator: torch.Generator
    ) -> None:
        """Update the beliefs by transitions ``[B, ...]`` (Eq. 5)."""
        (state, action, next_state), environment = self._given(environment, state, action, next_state)
        for agent, rows, local in self._split(environment):
            agent.observe(state[rows], action[rows], next_state[rows], local, generator)

    def log_predictive(
        self, state: Tensor, action: Tensor, next_state: Tensor, environment: Tensor, generator: torch.Generator
    ) -> Tensor:
        """log p(s' | s, a) in nats under the beliefs as they are now, ``[B]``."""
        (state, action, next_state), environment = self._given(environment, state, action, next_state)
        parts = [
            (rows, agent.log_predictive(state[rows], action[rows], next_state[rows], local, generator))
            for agent, rows, local in self._split(environment)
        ]
        return _join(parts)

    def predictive_pit(
        self,
        state: Tensor,
        action: Tensor,
        next_state: Tensor,
        environment: Tensor,
        generator: torch.Generator,
        factor: Tensor,
    ) -> Tensor:
        """The CDF of the prediction at what was observed, ``[B, T]``; ``factor`` ``[B, T]`` widens its Gaussians."""
        (state, action, next_state), environment = self._given(environment, state, action, next_state)
        parts = [
            (
                rows,
                agent.predictive_pit(
                    state[rows], action[rows], next_state[rows], local, generator, factor=factor[rows]
                ),
            )
            for agent, rows, local in self._split(environment)
        ]
        return _join(parts)

    def beliefs(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of q(e) for every environment in order, each ``[K, d]``.

        Of size 0 for agents that infer no latent: the context that an oracle is given is no belief.
        """
        order = self._order()
        posteriors = [agent.reported_posterior() for agent in self.agents]
        sizes = [agent.belief_dim for agent in self.agents]
        mean, scale = (
            torch.cat([getattr(posterior, what)[:, :size] for posterior, size in zip(posteriors, sizes, strict=True)])
            for what in ("mean", "stddev")
        )
        return mean[order], scale[order]

    @torch.no_grad()
    def belief_draws(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws of q(e) for every environment in order, ``[count, K, d]``, and log q at them in nats, ``[count, K]``.

        Where nothing is believed (size 0) there is one value, whose log density is 0. Where each member has its own
        belief, the count is rounded up to equal blocks in the members' order, and log q is that of a draw's own member.
        """
        order = self._order()
        members = max(agent.belief.members for agent in self.agents)
        count = -(-count // members) * members
        parts = []
        for agent in self.agents:
            draws, log_q = (
                torch.zeros(count, agent.environments, agent.belief_dim),
                torch.zeros(count, agent.environments),
            )
            if count and agent.belief_dim:
                posterior = agent.reported_posterior()
                with drawing_from(generator):
                    draws = posterior.sample((count,))
                log_q = own_log_prob(posterior, draws)
            parts.append((draws, log_q))
        draws, log_q = (torch.cat(part, 1)[:, order] for part in zip(*parts, strict=True))
        return draws, log_q

    def changed(self) -> Tensor:
        """Where the last update of a belief found that its environment has changed, booleans ``[K]``."""
        return torch.cat([agent.belief.changed for agent in self.agents])[self._order()]

    def rests_on(self) -> Tensor | None:
        """How many of the last transitions each belief mostly rests on, ``[K]``; None where none finds changes."""
        each = [agent.belief.rests_on for agent in self.agents if agent.belief_dim]
        if len(each) < len(self.agents) or any(one is None for one in each):
            return None
        return torch.cat([one for one in each if one is not None])[self._order()]

    def _order(self) -> Tensor:
        """Where each environment stands among those of all agents, one agent after the other."""
        return torch.tensor([environment for share in self.shares for environment in share]).argsort()

    def _given(self, environment: Any, *rows: Any) -> tuple[list[Tensor], Tensor]:
        """Rows as each agent takes them, and which environment each is of."""
        names = ("state", "action", "next_state")
        found = [as_rows(one, None, name, finite=False) for one, name in zip(rows, names, strict=False)]
        return found, as_indices(environment, len(found[0]), sum(map(len, self.shares)))

    def _split(self, environment: Tensor) -> Iterator[tuple[Agent, Tensor, Tensor]]:
        """For each agent its rows of a batch, and their environments in its own numbering."""
        for agent, share in zip(self.agents, self.shares, strict=True):
            owned = environment[:, None] == torch.tensor(share)
            rows = owned.any(1).nonzero().squeeze(1)
            if len(rows):
                yield agent, rows, owned[rows].int().argmax(1)

    def stream_state(self) -> list[dict[str, Any]]:
        """Copies of all that acting and observing change: beliefs and last plans."""
        return [agent.stream_state() for agent in self.agents]

    def load_stream_state(self, kept: Sequence[Mapping[str, Any]]) -> None:
        """Return to what :meth:`stream_state` gave."""
        for agent, part in zip(self.agents, kept, strict=True):
            agent.load_stream_state(part)

    def far_outside(self, data: Transitions) -> str:
        """Which entries of states lie far outside of what was trained on, in words; nothing where none do."""
        parts = [agent.far_outside(data.select(rows))[1] for agent, rows, _ in self._split(data.environment)]
        return "; ".join(words for words in parts if words)

    def fingerprint(self) -> str:
        """Identifies networks and guides: a digest of all weights, the same on every machine.

        Where beliefs about new environments begin is no part of it: that is a choice, as the kind of belief is.
        """
        digest = sha256()
        for agent in self.agents:
            for part in (agent.model, agent.guide):
                for name, value in part.state_dict().items():
                    if name.startswith("population") or (name.endswith("noise_factor") and bool((value == 1).all())):
                        continue
                    digest.update(name.encode() + value.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def state_dict(self) -> dict[str, Any]:
        """The state of every agent."""
        return {"agents": [agent.state_dict() for agent in self.agents]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave; raises :class:`UserError` if it is from another architecture."""
        agents = state.get("agents") if isinstance(state, Mapping) else None
        if not isinstance(agents, list) or len(agents) != len(self.agents):
            raise UserError(f"the checkpoint does not hold the {len(self.agents)} agents of the configuration")
        for agent, part in zip(self.agents, agents, strict=True):
            _require_moments(agent, part)
            agent.load_state_dict(part)


def _require_moments(agent: Agent, state: object) -> None:
    """Refuse an optimiser's state for parameters of other sizes: torch would take it, and stumble in training."""
    optimiser = state.get("optimiser") if isinstance(state, Mapping) else None
    moments = optimiser.get("state") if isinstance(optimiser, Mapping) else None
    parameters = [one for group in agent.offline.optimiser.param_groups for one in group["params"]]
    if not isinstance(moments, Mapping) or not set(moments) <= set(range(len(parameters))):
        raise UserError("the checkpoint is from another architecture than the configuration: its optimiser is another")
    for index, entry in moments.items():
        known = isinstance(entry, Mapping) and {"step", "exp_avg", "exp_avg_sq"} <= set(entry)
        sizes = [tuple(getattr(entry[name], "shape", (-1,))) for name in ("exp_avg", "exp_avg_sq")] if known else []
        if not known or sizes != [tuple(parameters[index].shape)] * 2 or not _is_step(entry["step"]):
            raise UserError(
                "the checkpoint is from another architecture than the configuration: its optimiser has other moments"
            )


def _is_step(value: object) -> bool:
    one = isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point()
    return one or (isinstance(value, int | float) and not isinstance(value, bool))


def _join(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Rows that were split over agents, in their first order."""
    order = torch.cat([rows for rows, _ in parts]).argsort()
    return torch.cat([values for _, values in parts])[order]
