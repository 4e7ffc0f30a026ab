"""Fitting a group to logged transitions alone: the held-out data, and how well it is predicted."""

import math
from typing import Any

import torch

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.datasets.logged_data import LoggedData
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.errors import UserError
from pyro_dynamics.rollouts.training import latent_gaps
from pyro_dynamics.seeding import derive_generator
from pyro_dynamics.transitions import Transitions

FEWEST = 10
"""Transitions that an environment must have: fewer leave nothing to hold out."""
LONG = 20
"""Steps; longer held-out episodes are preferred, as they are predicted many steps ahead."""


def hold_out(data: LoggedData, share: float, seed: int) -> tuple[Transitions, Transitions]:
    """Training data, and whole held-out episodes of each environment; of a single episode its last block.

    An episode ends where the next row does not continue the last one.

    Args:
        data: of K environments.
        share: of each environment's episodes (of its steps, if it has one episode), in (0, 1).
        seed: names the random choice of episodes.

    Raises:
        UserError: if an environment has too few transitions, or none that follow on one another.
    """
    rows = data.transitions
    episodes: list[list[torch.Tensor]] = [[] for _ in data.labels]
    for episode in rows.episodes():
        episodes[int(rows.environment[episode[0]])].append(episode)
    kept = torch.zeros(len(rows), dtype=torch.bool)
    for k, own in enumerate(episodes):
        where = f"{data.column} {label(data.labels[k])}"
        count = sum(map(len, own))
        if count < FEWEST:
            raise UserError(f"{where} has {count} transitions: each environment needs {FEWEST} or more")
        longest = max(map(len, own))
        if longest < 2:
            raise UserError(
                f"{where}: every episode has length 1: no row's state is the next_state of the row before it; "
                "log the steps in order, or give arrays episode and step"
            )
        candidates = [episode for episode in own if len(episode) >= min(LONG, longest)]
        if len(candidates) == 1:
            block = max(1, math.floor(share * len(candidates[0])))
            kept[candidates[0][-block:]] = True
            continue
        wanted = min(max(1, round(share * len(own))), len(candidates) - 1)
        order = torch.randperm(len(candidates), generator=derive_generator(seed, "fit", "held out", k))
        for index in order[:wanted].tolist():
            kept[candidates[index]] = True
    return rows.select(~kept), rows.select(kept)


def fit_metrics(
    group: AgentGroup, data: LoggedData, trained: Transitions, held_out: Transitions
) -> list[dict[str, Any]]:
    """A row for each environment, with the keys of a round of ``train``, and how much data there was."""
    mean, scale = group.beliefs()
    right, wrong = latent_gaps(group, held_out)
    episodes = [int(held_out.environment[episode[0]]) for episode in held_out.episodes()]
    return [
        {
            "round": 1,
            "environment": k,
            "context": context,
            "policy": "logged",
            "return": _mean_return(held_out, k, episodes.count(k)) if data.rewarded else None,
            "episodes": episodes.count(k),
            "steps": int((held_out.environment == k).sum()),
            "trained_steps": int((trained.environment == k).sum()),
            "latent_mean": mean[k].tolist(),
            "latent_sd": scale[k].tolist(),
            "log_likelihood": right[k],
            "log_likelihood_wrong_latent": wrong.get(k),
        }
        for k, context in enumerate(data.labels)
    ]


def _mean_return(data: Transitions, k: int, episodes: int) -> float:
    return float(data.reward[data.environment == k].double().sum()) / episodes
