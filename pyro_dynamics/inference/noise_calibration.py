"""Predicted noise made right on episodes that the networks were not trained on."""

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel
from pyro_dynamics.observation import has_default_observation
from pyro_dynamics.seeding import drawing_from

LEVEL = 0.9
"""Of the intervals that are made to cover as much as they say."""
SMALLEST = 0.01
"""Of a factor: a target that never varies would have none."""
DRAWS = 8
"""Of each latent."""


@torch.no_grad()
def calibrate_noise(
    model: DynamicsModel,
    posterior: Distribution,
    inputs: Tensor,
    targets: Tensor,
    environment: Tensor,
    generator: torch.Generator,
) -> bool:
    """Set ``likelihood.noise_factor`` so that single members' 90 % intervals cover 90 % of each target.

    Maximum likelihood would follow the largest errors, and the networks' own variance is held up by its bounds where
    the targets are small, and too narrow where the networks have fitted noise. A belief rests on single members, so
    these are calibrated; the mixture of all covers more, by as much as they differ.

    Args:
        model: its likelihood has a buffer ``noise_factor`` ``[T]``; without one, or with a hook of the user's own,
            nothing is done.
        posterior: of the environments' latents, batch shape ``[K]``.
        inputs: of episodes that were not trained on, ``[N, F + A]``.
        targets: ``[N, T]``.
        environment: ``[N]``.
        generator: source of the latents.

    Returns:
        Whether it was done.
    """
    factor = getattr(model.likelihood, "noise_factor", None)
    if not isinstance(factor, Tensor) or not has_default_observation(model) or not len(inputs):
        return False
    members = model.likelihood.members
    factor.fill_(1.0)
    with drawing_from(generator):
        latents = posterior.sample(torch.Size([DRAWS]))
    errors = []
    for latent in latents:
        location, scale = model.likelihood(inputs.expand(members, -1, -1), latent[environment].expand(members, -1, -1))
        errors.append(((targets - location) / scale).abs().flatten(0, 1))
    sizes = torch.cat(errors).sort(0).values
    largest_inside = sizes[math.ceil(LEVEL * len(sizes)) - 1]
    normal = math.sqrt(2) * torch.erfinv(torch.tensor(LEVEL))
    factor.copy_((largest_inside / normal).clamp(min=SMALLEST).nan_to_num(1.0))
    return True
