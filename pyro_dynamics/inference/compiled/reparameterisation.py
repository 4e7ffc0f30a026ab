"""Distributions as functions of tensors and noise alone, which is what torch.compile can take.

A Gaussian is known here. Any other posterior says itself how draws are made of noise, by two methods beside
``rsample``: ``standard_noise(sample_shape)``, the tensors that ``rsample`` draws, in its order, and
``from_noise(*noise)``, what it makes of them.
"""

import copy
from collections.abc import Iterator
from typing import cast

import torch
from pyro import distributions
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, LowRankMultivariateNormal

from pyro_dynamics.contracts import MadeOfNoise
from pyro_dynamics.inference.gaussians import gaussian_tensors, is_gaussian

Tensors = dict[str, Tensor]


def standard_noise(distribution: Distribution, samples: int, steps: int) -> tuple[Tensor, ...]:
    """The draws ``[steps, samples, K, ...]`` from torch's global generator that ``rsample`` would make in each step."""
    if not is_gaussian(distribution):
        own = cast(MadeOfNoise, distribution)
        drawn = [own.standard_noise(torch.Size([samples])) for _ in range(steps)]
        return tuple(torch.stack(parts) for parts in zip(*drawn, strict=True))
    location, *others = gaussian_tensors(distribution)
    last = (others[0].shape[-1:],) if isinstance(distribution, LowRankMultivariateNormal) else ()
    sizes = (*last, location.shape[-1:])
    noise = tuple(location.new_empty(steps, samples, *location.shape[:-1], *size) for size in sizes)
    for of_step in zip(*noise, strict=True):
        for part in of_step:
            part.normal_()
    return noise


def from_noise(distribution: Distribution, noise: tuple[Tensor, ...]) -> Tensor:
    """Draws ``[samples, K, d]`` out of noise: the distribution's ``rsample``, with the noise given."""
    if not is_gaussian(distribution):
        return cast(MadeOfNoise, distribution).from_noise(*noise)
    location, *others = gaussian_tensors(distribution)
    if isinstance(distribution, Independent):
        return location + noise[0] * others[0]
    moved = (others[0] @ noise[0][..., None]).squeeze(-1)
    return location + moved + (others[1].sqrt() * noise[1] if len(noise) > 1 else 0)


def taken_apart(distribution: Distribution) -> Tensors:
    """The tensors that a distribution is made of, by name; they are constants."""
    if is_gaussian(distribution):
        found = {str(index): part for index, part in enumerate(gaussian_tensors(distribution))}
    else:
        found = dict(_tensors_within(distribution, ""))
    return {name: part.detach().contiguous() for name, part in found.items()}


def put_together(like: Distribution, tensors: Tensors) -> Distribution:
    """The distribution of the kind of ``like`` out of what :func:`taken_apart` gave."""
    if not is_gaussian(like):
        # A copy whose tensors were "copied" already, into those that are given.
        return copy.deepcopy(like, {id(part): tensors[name] for name, part in _tensors_within(like, "")})
    location, spread, *others = tensors.values()
    if isinstance(like, Independent):
        independent: Distribution = distributions.Normal(location, spread).to_event(1)
        return independent
    if isinstance(like, LowRankMultivariateNormal):
        return distributions.LowRankMultivariateNormal(location, spread, others[0])
    return distributions.MultivariateNormal(location, scale_tril=spread)


def _tensors_within(thing: object, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a distribution and of the distributions and modules that it holds, each named by its way."""
    if isinstance(thing, Tensor):
        yield name, thing
    elif isinstance(thing, nn.Module):
        for own, part in [*thing.named_parameters(), *thing.named_buffers()]:
            yield f"{name}.{own}", part
    elif isinstance(thing, Distribution):
        for own, part in vars(thing).items():
            yield from _tensors_within(part, f"{name}.{own}")
