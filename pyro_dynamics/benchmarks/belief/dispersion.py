"""How wide trained guides are beside the best of their family, given the trained network and all that it was given."""

import torch

from pyro_dynamics.agent import Agent
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import KalmanUpdate, KalmanUpdateConfig
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.transitions import Transitions

ITERATIONS = 10
"""Linearisations; the last steps are then far below a posterior standard deviation."""


@torch.no_grad()
def dispersion(agent: Agent, trained_on: Transitions) -> list[list[float]] | None:
    """Standard deviations of the trained guide over those of the best guide of its family, ``[K][d]``.

    The best one is taken from the Laplace approximation at the mode, by the Kalman update on all transitions at once
    from the prior, begun at the trained means, and matched by the guide's own family.

    Args:
        agent: over the K environments that were trained on.
        trained_on: their transitions.

    Returns:
        None for guides that the Kalman update does not fit.
    """
    inputs = agent.task.inputs(trained_on.state, trained_on.action)
    targets = agent.task.targets(trained_on.state, trained_on.next_state)
    members = agent.model.likelihood.members
    best = agent.for_environments(agent.environments)
    prior = best.guide.frozen()
    everyone = torch.arange(agent.environments)
    try:
        best.guide.assign(everyone, agent.guide, everyone)
        batch = whole_batch(inputs, targets, trained_on.environment, members, 1.0)
        update, generator = KalmanUpdate(KalmanUpdateConfig(ITERATIONS)), torch.Generator().manual_seed(0)
        update.fit(best.model, best.guide, prior, batch, generator)
    except (UserError, NotImplementedError):
        return None
    ratio: list[list[float]] = (agent.guide.frozen().stddev / best.guide.frozen().stddev).tolist()
    return ratio
