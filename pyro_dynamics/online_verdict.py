"""Whether the belief about one environment can be believed: the verdict of ``adapt`` and ``diagnose``, in Python."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyro_dynamics.agent import Agent
from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.verdict import Verdict
from pyro_dynamics.environments import Family
from pyro_dynamics.io.stream_folder import Adaptation
from pyro_dynamics.rollouts.adaptation import BELIEF_DRAWS, replay
from pyro_dynamics.rollouts.adaptation_summary import as_row
from pyro_dynamics.rollouts.stream_verdict import judge_adaptation
from pyro_dynamics.transitions import Transitions


def judge_online(
    agent: Agent,
    trained: AgentGroup,
    family: Family,
    observed: Transitions,
    online: Mapping[str, Any],
    expected: float | None,
    seed: int,
) -> Verdict:
    """Follow the transitions once more with a fresh belief, predict each before it is seen, and judge.

    Args:
        agent: the one in that environment; its own belief is left as it is.
        trained: the agents of its run.
        family: of their environments.
        observed: T transitions in one environment, in their order.
        online: settings of the belief, among them its ``temperature``.
        expected: from :func:`~pyro_dynamics.rollouts.stream_verdict.reached`.
        seed: names the random streams.
    """
    fresh = AgentGroup([agent.for_environments(1)], [[0]])
    steps = list(replay(fresh, observed, [None] * len(observed), seed, BELIEF_DRAWS))
    rows = [as_row(step) for step in steps]
    latent, log_q = None, None
    if agent.belief_dim:
        latent = np.stack([step.draws[:, 0].numpy() for step in steps])
        log_q = np.stack([step.log_q[:, 0].numpy() for step in steps]).astype(np.float32)
    adaptation = Adaptation(rows, observed, latent, log_q, {"online": dict(online)})
    return judge_adaptation(adaptation, trained, family, expected).verdict
