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


def hold_out(data: LoggedData, share: float, seed: int) -> torch.Tensor:
    """Which transitions are held out, ``[N]``: whole episodes of each environment; of one that is most of it, a block.

    Args:
        data: of K environments.
        share: of each environment's transitions, in (0, 1), as nearly as whole episodes allow.
        seed: names the random choice of episodes.

    Raises:
        UserError: if an environment has too few transitions, or nothing says which follow on one another.
    """
    if len(data.labels) * FEWEST > len(data.episode) and len(data.labels) > 1:
        raise UserError(
            f"{data.column} has {len(data.labels)} different values in {len(data.episode)} rows, and each environment "
            f"needs {FEWEST} rows or more: round a quantity that was measured to the values that were meant, or name "
            "another column by --group"
        )
    kept = torch.zeros(len(data.episode), dtype=torch.bool)
    for k, name in enumerate(data.labels):
        own = (data.transitions.environment == k).nonzero().squeeze(1)
        where = f"{data.column} {label(name)}"
        if len(own) < FEWEST:
            raise UserError(f"{where} has {len(own)} transitions: each environment needs {FEWEST} or more")
        own = own[data.episode[own].argsort(stable=True)]
        counts = data.episode[own].unique_consecutive(return_counts=True)[1]
        episodes = list(own.split(counts.tolist()))
        longest = max(map(len, episodes))
        if longest < 2 and not data.episodic:
            raise UserError(
                f"{where}: every episode has length 1: no row's state is the next_state of the row before it; "
                "log the steps in order, or give arrays episode and step"
            )
        generator = derive_generator(seed, "fit", "held out", k)
        long = _shuffled([one for one in episodes if len(one) >= min(LONG, longest)], generator)
        short = _shuffled([one for one in episodes if len(one) < min(LONG, longest)], generator)
        candidates = [_part(episode, len(own), share) for episode in (*long, *short)]
        if sum(map(len, candidates)) == len(own):
            del candidates[-1]
        wanted, found = share * len(own), 0
        for rows in candidates:
            if found and found + len(rows) - wanted > wanted - found:
                break
            kept[rows] = True
            found += len(rows)
    return kept


def _part(episode: torch.Tensor, rows: int, share: float) -> torch.Tensor:
    """All of an episode, and of one that has most of an environment's rows its last block."""
    return episode if 2 * len(episode) <= rows else episode[-max(1, math.floor(share * len(episode))) :]


def _shuffled(episodes: list[torch.Tensor], generator: torch.Generator) -> list[torch.Tensor]:
    return [episodes[index] for index in torch.randperm(len(episodes), generator=generator).tolist()]


def fit_metrics(group: AgentGroup, data: LoggedData, kept: torch.Tensor) -> list[dict[str, Any]]:
    """A row for each environment, with the keys of a round of ``train``, and how much data there was.

    Args:
        group: fitted to the rest.
        data: of K environments.
        kept: which transitions are held out, ``[N]``.
    """
    mean, scale = group.beliefs()
    trained, held_out = data.transitions.select(~kept), data.transitions.select(kept)
    right, wrong = latent_gaps(group, held_out)
    episodes = [len(data.episode[kept & (data.transitions.environment == k)].unique()) for k in range(len(data.labels))]
    return [
        {
            "round": 1,
            "environment": k,
            "context": context,
            "policy": "logged",
            "return": _mean_return(held_out, k, episodes[k]) if data.rewarded else None,
            "episodes": episodes[k],
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
