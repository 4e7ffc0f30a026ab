"""The ELBO as a function of tensors alone, which torch.compile can take: what the compiled paths share.

Likelihood and guide are called, not written again, and the draws come in the order in which Pyro's would.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from pyro import poutine
from torch import Tensor, nn
from torch.distributions import Distribution, Normal, kl_divergence
from torch.func import functional_call
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from pyro_dynamics.inference.gaussians import from_noise, gaussian_from, gaussian_tensors, is_gaussian, standard_noise
from pyro_dynamics.transitions import Minibatch

Tensors = dict[str, Tensor]


class Data(NamedTuple):
    """What all steps of a fit share, as tensors.

    Attributes:
        theta: parameters and buffers of the likelihood, those that stand still.
        fixed: parameters and buffers of the guide that stand still.
        prior: see :func:`gaussian_tensors`.
        inputs: ``[M, B, F + A]``.
        targets: ``[M, B, T]``.
        environment: ``[M, B]``.
        weights: ``[B]``, the power of each row's likelihood; 0 for rows that only fill up.
    """

    theta: Tensors
    fixed: Tensors
    prior: tuple[Tensor, ...]
    inputs: Tensor
    targets: Tensor
    environment: Tensor
    weights: Tensor


Loss = Callable[[Tensors, Tensors, tuple[Tensor, ...], Data], Tensor]
"""Of the guide's free parameters, the likelihood's tensors, draws ``[samples, K, ...]`` and data."""


class CompilationFailed(Exception):
    """There is no C++ compiler here, or torch.compile does not get along with the likelihood or the guide."""


class View(nn.Module):
    """The guide's posterior as a module's output, as ``functional_call`` wants it."""

    def __init__(self, guide: nn.Module) -> None:
        super().__init__()
        self.guide = guide

    def forward(self) -> Distribution:
        return self.guide.posterior()  # type: ignore[operator]


def negative_elbo(likelihood: nn.Module, view: View, prior: Distribution, point: bool) -> Loss:
    """The negative ELBO of Eqs. 4 and 5 in nats, as a function of tensors alone."""

    def loss(parameters: Tensors, theta: Tensors, noise: tuple[Tensor, ...], data: Data) -> Tensor:
        posterior = functional_call(view, {**parameters, **data.fixed}, ())
        before = gaussian_from(prior, data.prior)
        latent = posterior.mean[None] if point else from_noise(posterior, noise)
        divergence = -before.log_prob(latent[0]) if point else kl_divergence(posterior, before)
        divergence = divergence if view.guide.infers else torch.zeros_like(divergence)  # an oracle's is given
        rows = latent[:, data.environment]
        location, scale = functional_call(
            likelihood, {**data.theta, **theta}, (data.inputs.expand(*rows.shape[:-1], -1), rows)
        )
        log_likelihood = Normal(location, scale, validate_args=False).log_prob(data.targets).sum(-1)
        return divergence.sum() - (data.weights * log_likelihood).sum() / len(latent)

    return loss


def filled_up(batch: Minibatch, size: int) -> dict[str, Tensor]:
    """The batch with its first row repeated, at weight 0, up to ``size`` rows: few shapes are compiled then."""
    members, rows = batch.environment.shape
    index = torch.arange(size)
    index[rows:] = 0
    weights = torch.where(torch.arange(size) < rows, batch.total / (rows * members), 0.0)
    parts = {name: getattr(batch, name)[:, index] for name in ("inputs", "targets", "environment")}
    return {**parts, "weights": weights.to(batch.targets.dtype)}


def gather(likelihood: nn.Module, guide: Any, prior: Distribution, batch: Minibatch, size: int) -> tuple[Tensors, Data]:
    """The guide's free parameters by name, and everything else that the ELBO needs, with ``size`` rows."""
    view = View(guide)
    free: Tensors = {name: value for name, value in view.named_parameters() if value.requires_grad}
    data = Data(
        theta=tensors_of(likelihood),
        fixed={name: value for name, value in tensors_of(view).items() if name not in free},
        prior=tuple(part.detach().contiguous() for part in gaussian_tensors(prior)),
        **filled_up(batch, size),
    )
    return free, data


def site_is_a_point(guide: Any, prior: Distribution, batch: Minibatch) -> bool | None:
    """Whether the site of the guide's Pyro program is a point at the posterior's mean, or the posterior itself.

    None where it is something else, or prior or posterior are no Gaussians: then nothing can be compiled.
    """
    posterior = guide.posterior()
    if not guide.infers:  # a point that is given
        return True
    if not is_gaussian(prior) or not is_gaussian(posterior):
        return None
    with torch.random.fork_rng(devices=[]):
        site = poutine.trace(guide).get_trace(batch, prior).nodes["e"]
    if torch.equal(site["value"], posterior.mean):
        return True
    return False if is_gaussian(site["fn"]) and type(site["fn"]) is type(posterior) else None


def noise_of_a_step(posterior: Distribution, point: bool, samples: int) -> tuple[Tensor, ...]:
    """Draws ``[samples, K, ...]`` from torch's global generator, as Pyro's step would take them."""
    return () if point else standard_noise(posterior, samples)


def traced(function: Callable[..., Any], *arguments: Any) -> GraphModule:
    """The tensor operations of ``function`` alone: torch.compile need not read the Python of Pyro and likelihood."""
    graph = make_fx(function)(*arguments)
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_check_errors.default):
        graph.graph.erase_node(node)  # no loop takes an operation that may raise; what fails shows as NaN
    graph.recompile()
    return graph


def tensors_of(module: nn.Module) -> Tensors:
    """Parameters and buffers by name, without their gradients."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: value.detach() for name, value in named.items()}


def first_line(fault: Exception) -> str:
    """What went wrong, for a warning."""
    return (str(fault).strip() or repr(fault)).splitlines()[0]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch's compiler says about itself from the user."""
    log = logging.getLogger("torch._inductor")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@cache
def tell(message: str) -> None:
    """A warning, once a process."""
    warnings.warn(message, stacklevel=4)
