"""Learned terminations: a small classifier of the observation reached.

A termination is 0 or 1 and rare, which the ensemble's Gaussians predict badly: as a target of the network, for a slide
that ends 1 m from its middle, it gave the planner a return of 20 after four rounds, where this classifier gave 111,
like the true rule. Terminations do not depend on the hidden physics, so the classifier has no latent.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from pyro_dynamics.seeding import drawing_from

HIDDEN, STEPS, HALF, RATE = 32, 500, 128, 1e-2
"""Width of both hidden layers; steps of Adam; rows of each class in a batch; learning rate."""


def fit_ending(reached: Tensor, ended: Tensor) -> dict[str, Tensor]:
    """Train a classifier on batches that are half ends and half other steps; takes half a second.

    Args:
        reached: observations after each step, ``[N, S]``.
        ended: whether the episode ended there, ``[N]`` of booleans.

    Returns:
        Its weights; without any end in the data, those of a classifier that predicts none.
    """
    scale, mean = torch.std_mean(reached, dim=0, correction=0)
    scale = torch.where(scale < 1e-12, torch.ones_like(scale), scale)
    generator = torch.Generator().manual_seed(0)
    with drawing_from(generator):
        hidden = (nn.Linear(reached.shape[1], HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU())
        last = nn.Linear(HIDDEN, 1)
        network = nn.Sequential(*hidden, last)
    rows = (reached - mean) / scale
    if ended.any() and not ended.all():
        _train(network, rows[ended], rows[~ended], generator)
    else:
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, 1.0 if ended.any() else -1.0)
    weights = {f"ending.{name}": value.detach().clone() for name, value in network.state_dict().items()}
    return {"ending.mean": mean, "ending.scale": scale, **weights}


def ending_sizes(entries: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the result of :func:`fit_ending` for observations of this size."""
    widths = {0: (entries, HIDDEN), 2: (HIDDEN, HIDDEN), 4: (HIDDEN, 1)}
    layers = {f"ending.{layer}.weight": (out, into) for layer, (into, out) in widths.items()}
    return {
        "ending.mean": (entries,),
        "ending.scale": (entries,),
        **layers,
        **{f"ending.{layer}.bias": (out,) for layer, (_, out) in widths.items()},
    }


def ends(weights: Mapping[str, Tensor], reached: Tensor) -> Tensor:
    """Whether an episode ends in the observations ``[..., S]``: booleans ``[...]``."""
    x = (reached - weights["ending.mean"]) / weights["ending.scale"]
    for layer in (0, 2):
        x = functional.silu(functional.linear(x, weights[f"ending.{layer}.weight"], weights[f"ending.{layer}.bias"]))
    return functional.linear(x, weights["ending.4.weight"], weights["ending.4.bias"]).squeeze(-1) > 0


@torch.enable_grad()
def _train(network: nn.Module, ends: Tensor, others: Tensor, generator: torch.Generator) -> None:
    """Logistic regression on equal shares of both classes, at a rate that decays to 0 over the second half."""
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=1e-4)
    wanted = torch.cat([torch.ones(HALF), torch.zeros(HALF)])
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * min(1.0, 2 * (1 - step / STEPS))
        batch = torch.cat([rows[torch.randint(len(rows), (HALF,), generator=generator)] for rows in (ends, others)])
        loss = functional.binary_cross_entropy_with_logits(network(batch).squeeze(-1), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
