"""Predicted noise made right on episodes that the networks were not trained on."""

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel
from pyro_dynamics.observation import has_default_observation
from pyro_dynamics.seeding import drawing_from

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
    """Set ``likelihood.noise_factor`` to its maximum likelihood for single members: the root mean square error in sds.

    The networks' own variance is held up by its bounds where targets are small, and too narrow where they have fitted
    noise. A belief rests on single members, so these are calibrated; the mixture of all covers more, by as much as they
    differ. A quantile of the errors would be right about coverage, and wrong where it matters: a pendulum stands still
    in most steps, where errors are small, and what is learned about it is learned while it swings.

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
        errors.append(((targets - location) / scale).square().mean((0, 1)))
    factor.copy_(torch.stack(errors).mean(0).sqrt().clamp(min=SMALLEST).nan_to_num(1.0))
    return True
