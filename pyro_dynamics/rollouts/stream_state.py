"""All that changes along a stream beside the environments: from it the stream resumes as if it had never been left."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.prediction.intervals import AdaptiveIntervals
from pyro_dynamics.errors import UserError, last_line
from pyro_dynamics.seeding import derive_generator


class StreamState:
    """Beliefs, last plans, the widths of the intervals, and where the random streams stand.

    Args:
        group: agents over K environments.
        seed: names the random streams.
        episode: names them further.
        acting: whether the agents plan, or follow a log.
    """

    def __init__(self, group: AgentGroup, seed: int, episode: int = 0, acting: bool = True) -> None:
        self.group = group
        key = ("adapt", episode, "actions") if acting else ("replay",)
        self.draws = derive_generator(seed, *key)
        # Streams of their own: measuring must not change the actions.
        self.measuring = derive_generator(seed, "adapt", episode, "calibration")
        self.reporting = derive_generator(seed, "adapt", episode, "belief")
        environments = sum(agent.environments for agent in group.agents)
        self.intervals = AdaptiveIntervals(environments, group.agents[0].task.target_dim)

    def state_dict(self) -> dict[str, Any]:
        """Copies, as tensors and numbers."""
        return {
            "group": deepcopy(self.group.stream_state()),  # one's own belief may hand out what it writes into
            "streams": [stream.get_state() for stream in (self.draws, self.measuring, self.reporting)],
            "intervals": {"log_factor": self.intervals.log_factor.clone(), "steps": self.intervals.steps},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave, of a group that was made in the same way."""
        self.group.load_stream_state(deepcopy(state["group"]))  # it may be loaded again
        for stream, kept in zip((self.draws, self.measuring, self.reporting), state["streams"], strict=True):
            stream.set_state(kept)
        self.intervals.log_factor = state["intervals"]["log_factor"].clone()
        self.intervals.steps = state["intervals"]["steps"]

    def resume(self, resume_point: "ResumePoint | None") -> None:
        """Be as after the steps that were made before, if there are any.

        Raises:
            UserError: if what was kept is of other agents.
        """
        if resume_point is None:
            return
        try:
            self.load_state_dict(resume_point.stream_state)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as fault:
            raise UserError(
                f"the state that was kept of the first steps is of other agents: {last_line(fault)}"
            ) from None


@dataclass(frozen=True)
class ResumePoint:
    """The first n steps of a stream in K environments, and the stream's state after them.

    Attributes:
        state: before each step, ``[n, K, S]``.
        action: ``[n, K, A]``.
        stream_state: what :meth:`StreamState.state_dict` gave after the last of them.
    """

    state: Tensor
    action: Tensor
    stream_state: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.state)

    def again(self, index: int, state: Tensor) -> Tensor:
        """The action ``[K, A]`` of a step that is made once more, in the same state ``[K, S]``.

        Raises:
            UserError: if it is another state.
        """
        if not torch.equal(state, self.state[index]):
            raise UserError(
                f"step {index} does not begin in the state that it began in before: the simulator or the data does not "
                "repeat itself, and what was made cannot be resumed; choose another --out to begin anew"
            )
        return self.action[index]
