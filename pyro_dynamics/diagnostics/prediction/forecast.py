"""Predictions over several steps beside the observed states: the model rolled along the actions that were taken."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.errors import UserError
from pyro_dynamics.observation import draw, location_and_scale, observation
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Transitions


@dataclass(frozen=True)
class Forecast:
    """W windows of H steps, each predicted by P particles from its first state and its actions alone.

    Attributes:
        draws: predicted states, ``[P, W, H, S]``.
        observed: the states that came, ``[W, H, S]``.
        start: the states that the windows begin in, ``[W, S]``.
        environment: of each window, ``[W]``.
        step: within its episode, at which each window begins, ``[W]``.
    """

    draws: Tensor
    observed: Tensor
    start: Tensor
    environment: Tensor
    step: Tensor


def windows(data: Transitions, horizon: int, limit: int) -> Tensor:
    """Rows ``[W, H]`` of whole, disjoint windows of episodes, up to ``limit`` of each environment, evenly spread."""
    found: dict[int, list[Tensor]] = {}
    for rows in data.episodes():
        whole = rows[: len(rows) // horizon * horizon].reshape(-1, horizon)
        found.setdefault(int(data.environment[rows[0]]), []).extend(whole)
    kept = []
    for k in sorted(found):
        these = found[k]
        kept += [these[i] for i in torch.linspace(0, len(these) - 1, min(limit, len(these))).long().tolist()]
    return torch.stack(kept) if kept else torch.empty(0, horizon, dtype=torch.long)


@torch.no_grad()
def forecast(
    agent: Agent, data: Transitions, horizon: int, particles: int, generator: torch.Generator, limit: int = 30
) -> Forecast:
    """Roll particles along recorded actions; each keeps its member and its draw of e over the horizon (TS-inf).

    Args:
        agent: has ``posterior()``, ``task`` and ``model``.
        data: transitions of its environments.
        horizon: H.
        particles: P, rounded up to a multiple of the members.
        generator: source of draws and noise.
        limit: windows of each environment.
    """
    rows = windows(data, horizon, limit)
    start, environment = data.state[rows[:, 0]], data.environment[rows[:, 0]]
    draws = roll_out(agent, start, data.action[rows], environment, particles, generator)
    return Forecast(draws, data.next_state[rows], start, environment, data.step[rows[:, 0]])


@torch.no_grad()
def roll_out(
    agent: Agent, start: Tensor, actions: Tensor, environment: Tensor, particles: int, generator: torch.Generator
) -> Tensor:
    """States that the model predicts along given actions; each particle keeps its member and its draw of e (TS-inf).

    Args:
        agent: has ``posterior()``, ``task`` and ``model``.
        start: where W windows begin, ``[W, S]``.
        actions: in the environment's units, ``[W, H, A]``.
        environment: of each window, ``[W]``.
        particles: P, rounded up to a multiple of the members.
        generator: source of draws and noise.

    Returns:
        ``[P, W, H, S]``.
    """
    task, members = agent.task, agent.model.likelihood.members
    each = -(-particles // members)
    with drawing_from(generator):
        latent = agent.posterior().sample((members, each))[:, :, environment].flatten(1, 2)
    state = start.expand(members, each, -1, -1).flatten(1, 2)
    path = []
    for t in range(actions.shape[1]):
        action = actions[:, t].expand(members, each, -1, -1).flatten(1, 2)
        predicted = observation(agent.model, task.inputs(state, action), latent)
        state = task.next_state(state, draw(predicted, generator))
        path.append(state.unflatten(1, (each, -1)).flatten(0, 1))
    return torch.stack(path, 2)


@torch.no_grad()
def traversal(agent: Agent, data: Transitions, horizon: int) -> tuple[dict[int, np.ndarray], int]:
    """What each environment's mean latent makes of the same actions: one start, every latent, no noise.

    The start and the actions are those of the first whole window of the data. Each member rolls by itself along its
    means; a path is the mean over members.

    Args:
        agent: has ``posterior()``, ``task`` and ``model``.
        data: transitions of its K environments.
        horizon: H.

    Returns:
        For each environment the path ``[H]`` of the state dimension in which the paths differ most, measured by the
        standard deviation of that dimension in the data; and the index of that dimension.

    Raises:
        UserError: if no episode has that many steps.
    """
    rows = windows(data, horizon, 1)
    if not len(rows):
        raise UserError(f"no episode has {horizon} steps: there is no window to roll latents along")
    task, members = agent.task, agent.model.likelihood.members
    latent = agent.posterior().mean.expand(members, -1, -1)
    state = data.state[rows[0, 0]].expand(*latent.shape[:2], -1)
    path = []
    for action in data.action[rows[0]]:
        predicted = observation(agent.model, task.inputs(state, action.expand(*latent.shape[:2], -1)), latent)
        state = task.next_state(state, location_and_scale(predicted)[0])
        path.append(state.mean(0))
    paths = torch.stack(path, 1)  # [K, H, S]
    scale = data.state.std(0, correction=0)
    difference = (paths.amax(0) - paths.amin(0)).mean(0)
    # A dimension that never changes in the data has no scale to measure by: it is not chosen.
    dimension = int(torch.where(scale < 1e-12, 0, difference / scale).argmax())
    return {k: own.numpy() for k, own in enumerate(paths[:, :, dimension])}, dimension
