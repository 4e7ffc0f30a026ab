"""The network's own intervals on episodes that it was not trained on, and the width of its trained guides."""

from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.diagnostics.prediction.predictive import coverage
from pyro_dynamics.observation import marginal_cdf
from pyro_dynamics.seeding import derive_generator, drawing_from
from pyro_dynamics.transitions import Transitions

DRAWS = 64
"""Of each environment's latent."""
ROWS = 500
"""Predicted at once, for the memory that they take."""


@torch.no_grad()
def network_coverage(agent: Agent, held_out: Transitions, seed: int = 0) -> dict[str, Any]:
    """Share of held-out targets inside the network's central 90 % intervals, under the trained posteriors.

    Args:
        agent: over the environments that were trained on.
        held_out: episodes in these that were not trained on.
        seed: names the random stream.

    Returns:
        ``mixture``: of the mixture over members, for each target, ``[T]``; ``members``: the same of each member by
        itself, ``[M][T]``.
    """
    generator = derive_generator(seed, "belief benchmark", "network")
    mixture, members = [], []
    for rows in torch.arange(len(held_out)).split(ROWS):
        some = held_out.select(rows)
        with drawing_from(generator):
            latents = agent.posterior().sample((DRAWS,))[:, some.environment]
        targets = agent.task.targets(some.state, some.next_state)
        pit: Tensor = marginal_cdf(agent.observation(some.state, some.action, latents), targets)  # [n, M, B, T]
        mixture.append(pit.mean((0, 1)))
        members.append(pit.mean(0))
    return {"mixture": _inside(torch.cat(mixture)), "members": [_inside(one) for one in torch.cat(members, 1)]}


def _inside(pit: Tensor) -> list[float]:
    """Share of the rows inside, for each target, of a PIT ``[B, T]``."""
    return [float(coverage(pit[:, [t]]).mean()) for t in range(pit.shape[1])]
