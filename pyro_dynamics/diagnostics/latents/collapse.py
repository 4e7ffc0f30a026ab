"""The collapse gate: does the network use the latent?"""

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions

BLOCKS = 10
"""Parts of an environment's transitions, in their order, that are taken as independent: single steps of an episode are
not."""


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
    right, wrong = _by_transition(agent, data, samples)
    own, others = (None if part is None else _means(agent, data, part) for part in (right, wrong))
    assert own is not None
    return own, others


@torch.no_grad()
def collapse_gap_p(agent: Agent, data: Transitions, samples: int = 8) -> list[float] | None:
    """Could the difference that :func:`collapse_gap` gives be chance? A p-value for each of K environments.

    Wilcoxon's signed-rank test, two-sided, over the means of blocks of each environment's transitions: steps of an
    episode are correlated, and a few of them may decide the mean. None for one environment or no latent.
    """
    from scipy.stats import wilcoxon  # here, as it takes long

    right, wrong = _by_transition(agent, data, samples)
    if wrong is None:
        return None
    found = []
    for k in range(agent.environments):
        gap = (right - wrong)[data.environment == k].double()
        blocks = torch.stack([part.mean() for part in gap.tensor_split(min(BLOCKS, len(gap)))])
        found.append(float(wilcoxon(blocks.numpy()).pvalue) if bool(blocks.any()) else 1.0)
    return found


def _by_transition(agent: Agent, data: Transitions, samples: int) -> tuple[Tensor, Tensor | None]:
    """Log-likelihood of each transition under its own latent, and the mean of those under the others', ``[N]``."""
    with drawing_from(torch.Generator().manual_seed(0)):
        latents = agent.posterior().sample((samples,))

    def log_likelihood(environment: Tensor) -> Tensor:
        rows = agent.log_likelihood(data.state, data.action, data.next_state, latents[:, environment])
        return rows.mean(dim=(0, 1))

    right = log_likelihood(data.environment)
    shifts = range(1, agent.environments)
    if not shifts or agent.latent_dim == 0:
        return right, None
    wrong = [log_likelihood((data.environment + shift) % agent.environments) for shift in shifts]
    return right, torch.stack(wrong).mean(0)


def _means(agent: Agent, data: Transitions, values: Tensor) -> Tensor:
    """Mean of each environment's values ``[N]``: ``[K]``."""
    return torch.stack([values[data.environment == k].mean() for k in range(agent.environments)])
