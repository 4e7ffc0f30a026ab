"""Does a model predict a context well only in states of that context's own episodes?

Predictions from states that the last round visited, under the physics of their own training context and under those of
the other contexts. A model with a latent gets the trained latent of the current physics, an oracle their context, a
generalist nothing.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_dynamics.agent import Agent
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

HEAD = ("run", "own context (nats per step)", "other contexts", "lost")


@torch.no_grad()
def crossed_log_likelihood(agent: Agent, state: Tensor, action: Tensor, targets: Tensor) -> Tensor:
    """log p(s' | s, a) in nats of n states under the physics of each of K contexts, ``[n, K]``.

    Args:
        agent: over the K training contexts.
        state: ``[n, S]``.
        action: ``[n, A]``.
        targets: of the task, one step later under each context's physics, ``[n, K, T]``.
    """
    columns = []
    for k, latent in enumerate(agent.posterior().mean):
        location, scale = agent.predict(state, action, latent.expand(1, len(state), -1))
        each = torch.distributions.Normal(location, scale).log_prob(targets[:, k]).sum(-1)[0]  # [M, n]
        columns.append(each.logsumexp(0) - math.log(len(each)))
    return torch.stack(columns, 1)


def means(found: Tensor, own: Tensor) -> tuple[float, float]:
    """The mean under a state's own physics, and under the others'.

    Args:
        found: ``[n, K]``.
        own: whose episode a state is from, ``[n]``.
    """
    count = found.shape[1]
    of = torch.stack([found[own == k].mean(0) for k in range(count)])  # [K, K]: states of, physics of
    at_home = of.diagonal().sum()
    return float(at_home / count), float((of.sum() - at_home) / (count * (count - 1)))


def table(rows: Sequence[Row]) -> str:
    """As Markdown; a row has ``run``, ``own`` and ``others``."""
    lines = [
        [row["run"], f"{row['own']:.2f}", f"{row['others']:.2f}", f"{row['own'] - row['others']:.2f}"] for row in rows
    ]
    return markdown_table(HEAD, lines, words=1)
