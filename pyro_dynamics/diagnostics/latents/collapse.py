"""The collapse gate: does the network use the latent?"""

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions


@torch.no_grad()
def collapse_gap(agent: Agent, data: Transitions, samples: int = 8) -> tuple[Tensor, Tensor | None]:
    """Expected log-likelihood of each environment's transitions under its own latent and under the others'.

    The first minus the second must be positive: if wrong latents predict as well as the right ones, the network
    ignores them (posterior collapse).

    Args:
        agent: has ``environments``, ``posterior()`` and ``log_likelihood(state, action, next_state, latents)``.
        data: transitions of its K environments, best held out.
        samples: draws from each posterior.

    Returns:
        Two means in nats for each transition, each ``[K]``. The second is None for one environment or no latent.
    """
    with drawing_from(torch.Generator().manual_seed(0)):
        latents = agent.posterior().sample((samples,))

    def mean_log_likelihood(environment: Tensor) -> Tensor:
        rows = agent.log_likelihood(data.state, data.action, data.next_state, latents[:, environment])
        rows = rows.mean(dim=(0, 1))
        return torch.stack([rows[data.environment == k].mean() for k in range(agent.environments)])

    right = mean_log_likelihood(data.environment)
    shifts = range(1, agent.environments)
    if not shifts or agent.latent_dim == 0:
        return right, None
    wrong = [mean_log_likelihood((data.environment + shift) % agent.environments) for shift in shifts]
    return right, torch.stack(wrong).mean(0)
