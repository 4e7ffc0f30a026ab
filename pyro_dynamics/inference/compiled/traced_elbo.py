"""The ELBO as a function of tensors alone, which torch.compile can take: what the compiled paths share.

The model's hook and the guide are called, not written again, and the draws come in the order in which Pyro's would.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import pyro
import torch
from pyro import poutine
from torch import Tensor, nn
from torch.distributions import Distribution, Normal, kl_divergence
from torch.func import functional_call

from pyro_dynamics.contracts import DynamicsModel, Linearisable, Module, VariationalGuide
from pyro_dynamics.inference.compiled.reparameterisation import (
    Tensors,
    from_noise,
    put_together,
    standard_noise,
    taken_apart,
)
from pyro_dynamics.inference.gaussians import is_gaussian
from pyro_dynamics.observation import observation
from pyro_dynamics.transitions import Minibatch

Site = Literal["posterior", "path", "point"]
"""What the site of the guide's Pyro program is: its posterior, with a divergence in closed form; its posterior with the
path gradient, and a divergence from draws; or a point at the posterior's mean."""


class Data(NamedTuple):
    """What all steps of a fit share, as tensors.

    Attributes:
        theta: parameters and buffers of the model, those that stand still.
        fixed: parameters and buffers of the guide that stand still.
        prior: see :func:`taken_apart`.
        inputs: ``[M, B, F + A]``.
        targets: ``[M, B, T]``.
        environment: ``[M, B]``.
        weights: ``[B]``, the power of each row's likelihood; 0 for rows that only fill up.
    """

    theta: Tensors
    fixed: Tensors
    prior: Tensors
    inputs: Tensor
    targets: Tensor
    environment: Tensor
    weights: Tensor


Loss = Callable[[Tensors, Tensors, tuple[Tensor, ...], Data], Tensor]
"""Of the guide's free parameters, the model's tensors, draws ``[samples, K, ...]`` and data."""


class View(nn.Module):
    """Any use of a module, as ``functional_call`` wants it: inside of the call.

    What comes out must be tensors alone: a flow's posterior holds the guide's own modules, whose tensors are others
    after the call.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, use: Callable[..., Any], *arguments: Tensor) -> Any:
        return use(self.module, *arguments)


def negative_elbo(model: DynamicsModel, view: View, prior: Distribution, site: Site, linearised: bool = False) -> Loss:
    """The negative ELBO of Eqs. 4 and 5 in nats, as a function of tensors alone.

    Args:
        model: its hook ``observation`` gives the distribution of the targets, each row by itself.
        view: of the guide.
        prior: of the latents.
        site: see :data:`Site`.
        linearised: put the network's linearisation at the draws in its place, for the default hook, which changes
            neither the value nor the gradient in the guide's parameters, and is fast where there are few rows.
    """
    network, infers = View(model), cast(VariationalGuide, view.module).infers

    def log_density(model: DynamicsModel, inputs: Tensor, latent: Tensor, targets: Tensor) -> Tensor:
        if linearised:
            location, scale = _by_linearisation(cast(Linearisable, model.likelihood), inputs, latent)
            by_row: Tensor = Normal(location, scale).log_prob(targets).sum(-1)
            return by_row
        return observation(model, inputs, latent).log_prob(targets)

    def of_posterior(use: Callable[[Distribution], Tensor], parameters: Tensors, data: Data) -> Tensor:
        found: Tensor = functional_call(view, {**parameters, **data.fixed}, (lambda guide: use(guide.posterior()),))
        return found

    def divergence(parameters: Tensors, latent: Tensor, data: Data) -> Tensor:
        before = put_together(prior, data.prior)
        if site == "point":
            return -before.log_prob(latent[0])
        if site == "posterior":
            return of_posterior(lambda q: kl_divergence(q, before), parameters, data)
        still = {name: value.detach() for name, value in parameters.items()}
        return (of_posterior(lambda q: q.log_prob(latent), still, data) - before.log_prob(latent)).mean(0)

    def loss(parameters: Tensors, theta: Tensors, noise: tuple[Tensor, ...], data: Data) -> Tensor:
        is_point = site == "point"
        latent = of_posterior(lambda q: q.mean[None] if is_point else from_noise(q, noise), parameters, data)
        rows = latent[:, data.environment]
        inputs = data.inputs.expand(*rows.shape[:-1], -1)
        tensors = {f"module.{name}": value for name, value in {**data.theta, **theta}.items()}
        with pyro.validation_enabled(False):
            log_likelihood = functional_call(network, tensors, (log_density, inputs, rows, data.targets))
        distance = divergence(parameters, latent, data).sum() if infers else 0.0  # an oracle's is given
        total: Tensor = distance - (data.weights * log_likelihood).sum() / len(latent)
        return total

    return loss


def _by_linearisation(likelihood: Linearisable, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """Location and scale, as functions of the latent that are linear from where it is."""
    still = latent.detach()
    location, scale, *slopes = likelihood.linearised(inputs, still)
    moved = (latent - still)[..., None]
    of_location, of_scale = ((slope * moved).sum(-2) for slope in slopes)
    return location + of_location, scale + of_scale


def filled_up(batch: Minibatch, size: int) -> dict[str, Tensor]:
    """The batch with its first row repeated, at weight 0, up to ``size`` rows: few shapes are compiled then."""
    members, rows = batch.environment.shape
    index = torch.arange(size)
    index[rows:] = 0
    weights = torch.where(torch.arange(size) < rows, batch.total / (rows * members), 0.0)
    parts = {name: getattr(batch, name).contiguous() for name in ("inputs", "targets", "environment")}
    if rows < size:
        parts = {name: part.index_select(1, index) for name, part in parts.items()}
    return {**parts, "weights": weights.to(batch.targets.dtype)}


def gather(
    model: DynamicsModel, guide: VariationalGuide, prior: Distribution, batch: Minibatch, size: int
) -> tuple[Tensors, Data]:
    """The guide's free parameters by name, and everything else that the ELBO needs, with ``size`` rows."""
    view = View(guide)
    free: Tensors = {name: value for name, value in view.named_parameters() if value.requires_grad}
    data = Data(
        theta=tensors_of(model),
        fixed={name: value for name, value in tensors_of(view).items() if name not in free},
        prior=taken_apart(prior),
        **filled_up(batch, size),
    )
    return free, data


def site_of(guide: VariationalGuide, prior: Distribution, batch: Minibatch) -> Site | None:
    """What the site of the guide's Pyro program is; None where it is something else, and nothing can be compiled."""
    if not guide.infers:
        return "point"  # that is given
    posterior = guide.posterior()
    with torch.random.fork_rng(devices=[]):
        site = poutine.trace(guide).get_trace(batch, prior).nodes["e"]
    value, found = cast(Tensor, site["value"]), cast(Distribution, site["fn"])
    if is_gaussian(posterior) and is_gaussian(prior):
        if torch.equal(value, posterior.mean):
            return "point"
        return "posterior" if type(found) is type(posterior) and is_gaussian(found) else None
    moving = getattr(found, "moving", None)  # as the guides' PathGradient has it
    return "path" if type(moving) is type(posterior) and hasattr(moving, "from_noise") else None


def not_compilable(guide: VariationalGuide) -> str:
    """Why :func:`site_of` found nothing, for a warning."""
    return f"the site e of {type(guide).__name__} is no Gaussian, and has no from_noise with a PathGradient"


def noise_of(posterior: Distribution, site: Site, samples: int, steps: int) -> tuple[Tensor, ...]:
    """Draws ``[steps, samples, K, ...]`` from torch's global generator, as Pyro's steps would take them."""
    return () if site == "point" else standard_noise(posterior, samples, steps)


def tensors_of(module: Module) -> Tensors:
    """Parameters and buffers by name, without their gradients."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: value.detach() for name, value in named.items()}
