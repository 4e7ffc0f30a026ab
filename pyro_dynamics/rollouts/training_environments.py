"""The environments that a training acts in: the same in every round, or a new one for each episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gymnasium.vector import VectorEnv

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.environments import Context
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class RoundEnvironments:
    """Those of one round.

    Attributes:
        envs: B simulated ones, each context's B / K times.
        contexts: the true hidden parameters of the K environments.
        first: the number of the first of them among all environments that the agents know.
        group: who acts in them; it numbers them from 0 on.
        new: whether nothing is known of them: then the beliefs about them follow every step.
    """

    envs: VectorEnv
    contexts: Sequence[Context]
    first: int
    group: AgentGroup
    new: bool


class TrainingEnvironments(Protocol):
    """What Algorithm 1 acts in."""

    def begin(self, m: int, group: AgentGroup) -> RoundEnvironments:
        """The environments of round m, for agents that have been trained for it."""

    def finish(self, m: int, group: AgentGroup, episodes: Transitions) -> None:
        """The episodes of round m are over: let the agents know its environments."""

    def close(self) -> None:
        """Close the simulators."""


class FixedEnvironments:
    """K environments, the same in every round: a latent for each.

    Args:
        envs: K of them, or a multiple of K: several episodes of each in one round.
        contexts: the true hidden parameter of each of the K.
    """

    def __init__(self, envs: VectorEnv, contexts: Sequence[Context]) -> None:
        self.envs, self.contexts = envs, contexts

    def begin(self, m: int, group: AgentGroup) -> RoundEnvironments:
        return RoundEnvironments(self.envs, self.contexts, 0, group, new=False)

    def finish(self, m: int, group: AgentGroup, episodes: Transitions) -> None:
        """They were known before."""

    def close(self) -> None:
        self.envs.close()


class DrawnEnvironments:
    """A new environment for each episode, as in domain randomisation: its context is met for the first time.

    So the agents act with fresh beliefs, as in a test. Afterwards each episode is an environment of the training: with
    a latent of its own, which is inferred from the whole episode before the networks learn from it.

    Args:
        contexts: those of a round's episodes.
        make_envs: simulators of such contexts.
        fresh: agents with the same networks, and fresh beliefs about environments of such contexts.
        grown: fresh agents over all environments of the rounds up to one.
    """

    def __init__(
        self,
        contexts: Callable[[int], Sequence[Context]],
        make_envs: Callable[[Sequence[Context]], VectorEnv],
        fresh: Callable[[AgentGroup, Sequence[Context]], AgentGroup],
        grown: Callable[[int], AgentGroup],
    ) -> None:
        self.contexts, self.make_envs, self.fresh, self.grown = contexts, make_envs, fresh, grown
        self._envs: VectorEnv | None = None

    def begin(self, m: int, group: AgentGroup) -> RoundEnvironments:
        contexts = self.contexts(m)
        self.close()
        self._envs = self.make_envs(contexts)
        acting = self.fresh(group, contexts) if m else group
        return RoundEnvironments(self._envs, contexts, m * len(contexts), acting, new=True)

    def finish(self, m: int, group: AgentGroup, episodes: Transitions) -> None:
        if m:  # in round 0 nothing was trained yet that could infer
            first = sum(map(len, group.shares))
            group.extend(self.grown(m))
            group.infer_new(episodes, first)

    def close(self) -> None:
        if self._envs is not None:
            self._envs.close()
            self._envs = None
