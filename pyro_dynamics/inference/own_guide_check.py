"""What a guide of the user's own does, tried out on made-up transitions before anything is trained with it."""

from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import Distribution

from pyro_dynamics.contracts import VariationalGuide
from pyro_dynamics.errors import PartFault, UserError, faults_of, first_line
from pyro_dynamics.inference.guide_check import check_posterior, is_point
from pyro_dynamics.inference.own_match_check import check_match
from pyro_dynamics.registry import is_own
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch

DRAWS = 1000
PRIOR = (0.34, 1.35)
"""The median distance from 0 of a fresh guide's draws: of N(0, 1) it is 0.67, and tails may be others."""
FAR = 5.0
"""A value that a latent may have, in standard deviations of its prior."""


@torch.enable_grad()
def check_own_guide(guide: VariationalGuide, members: int, inputs: int, targets: int) -> None:
    """Refuse, in words, a guide of the user's own that could be trained or updated only by mistake.

    Guides of this project, whose tests say the same, are left alone.

    Args:
        guide: has passed ``check_guide``.
        members: M of the ensemble.
        inputs: size F + A of features and action.
        targets: size T.

    Raises:
        UserError: naming the guide and what is wrong.
    """
    if not guide.infers or not is_own(type(guide)):
        return
    name = type(guide).__name__
    rows = torch.arange(3).expand(members, 3) % guide.environments
    batch = Minibatch(torch.zeros(members, 3, inputs), torch.zeros(members, 3, targets), rows, 3.0)
    with (
        drawing_from(torch.Generator().manual_seed(0)),
        pyro.settings.context(module_local_params=True),
        pyro.validation_enabled(False),
    ):
        _check_declarations(guide, name)
        _check_distribution(guide, name)
        _check_follows(guide, name)
        _check_program(guide, name, batch)
        _check_copies(guide, name)


def _check_declarations(guide: VariationalGuide, name: str) -> None:
    for attribute in ("has_density", "reads_transitions", "context_given"):
        if not isinstance(getattr(guide, attribute), bool):
            raise UserError(f"{name}.{attribute} must be True or False, not {getattr(guide, attribute)!r}")
    shared: Any = getattr(guide, "shared", ())
    if isinstance(shared, str) or not all(isinstance(one, str) for one in shared):
        raise UserError(f"{name}.shared must be a tuple of names, not {shared!r}")
    for what, value in (*guide.named_parameters(), *guide.named_buffers()):
        if value.is_floating_point() and value.dtype != torch.float32:
            raise UserError(f"{name}: {what} is {value.dtype}, and must be torch.float32 as the model is")


def _check_distribution(guide: VariationalGuide, name: str) -> None:
    """The posterior gives finite draws, moments and densities, the same each time."""
    shape = (guide.environments, guide.latent_dim)
    posterior, again, frozen = guide.posterior(), guide.posterior(), _frozen(guide, name)
    if not callable(posterior):
        raise UserError(
            f"{name}.posterior() is torch's {type(posterior).__name__}, which Pyro cannot sample: take it from "
            "pyro.distributions"
        )
    with faults_of(f"{name}.posterior().rsample()"):
        draws = posterior.rsample()
    _require_finite(f"{name}.posterior().rsample()", draws, shape)
    for what in ("mean", "stddev"):
        with faults_of(f"{name}.posterior().{what}, by which beliefs are reported,"):
            value = getattr(posterior, what)
        _require_finite(f"{name}.posterior().{what}", value, shape)
    same = torch.equal(posterior.mean, again.mean)
    if guide.has_density:
        with faults_of(f"{name}.posterior().log_prob()"):
            density = posterior.log_prob(draws)
        _require_finite(f"{name}.posterior().log_prob()", density, shape[:1])
        same = same and torch.equal(density, again.log_prob(draws))
        _require_density(posterior, name)
    if not same:
        raise UserError(f"{name}.posterior() gives another distribution each time: it must draw nothing itself")
    if frozen.mean.requires_grad:
        raise UserError(f"{name}.frozen() must give a constant: leave it to Guide, or end it with detached tensors")


def _frozen(guide: VariationalGuide, name: str) -> Distribution:
    """The posterior of a copy; torch copies no tensor that was computed from parameters."""
    try:
        return guide.frozen()
    except RuntimeError as fault:
        if "deepcopy" not in str(fault):
            raise PartFault(f"{name}.frozen() raised {type(fault).__name__}: {first_line(fault)}") from fault
    computed = [what for what, value in vars(guide).items() if isinstance(value, Distribution) or _is_computed(value)]
    raise UserError(_kept(f"keeps {computed[0]}" if computed else "keeps something", name))


def _is_computed(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_leaf


def _kept(what: str, name: str) -> str:
    return (
        f"{name} {what} that it computed from its parameters, and will not move with them: compute it anew in every "
        "call of posterior(), and keep nothing but parameters and buffers"
    )


@torch.no_grad()
def _check_follows(guide: VariationalGuide, name: str) -> None:
    """After a step of its parameters the posterior is that of a copy, in which nothing is kept of earlier calls."""
    before = [(value, value.clone()) for value in guide.parameters()]
    for value, _ in before:
        value.add_(0.01 * torch.randn_like(value))
    now, fresh = guide.posterior(), guide.frozen()
    pairs = [(getattr(now, moment), getattr(fresh, moment)) for moment in ("mean", "stddev")]
    same = all(torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True) for one, other in pairs)
    for value, old in before:
        value.copy_(old)
    if not same:
        raise UserError(_kept("keeps a posterior, or a part of it,", name))


def _require_density(posterior: Distribution, name: str) -> None:
    """Online the posterior is the next prior: what it excludes now could never be believed again."""
    for far in (-FAR, FAR):
        if not posterior.log_prob(torch.full_like(posterior.mean, far)).isfinite().all():
            raise UserError(
                f"{name}.posterior() has no density at {far:g}, and a latent may have any real value: "
                "take a distribution over all of them, or set has_density = False in the class (it then trains and "
                "plans only)"
            )


def _check_program(guide: VariationalGuide, name: str, batch: Minibatch) -> None:
    """The Pyro guide draws ``e`` from the posterior, for each environment by parameters of its own."""
    with faults_of(f"{name}.forward(batch, prior)"):
        nodes: dict[str, Any] = poutine.trace(guide).get_trace(batch, None).nodes
        poutine.trace(guide).get_trace(batch, guide.frozen())  # as an online update calls it
    sites = [
        site for site, node in nodes.items() if node["type"] == "sample" and not poutine.util.site_is_subsample(node)
    ]
    plates = [plate.name for plate in nodes["e"]["cond_indep_stack"]] if sites == ["e"] else []
    if plates != ["environment"]:
        raise UserError(
            f"{name}.forward must sample one site, e, in the plate environment, as the model does, and samples "
            f"{', '.join(sites) or 'none'} in {', '.join(plates) or 'none'}: leave it to Guide if you can"
        )
    drawn, value = nodes["e"]["fn"], nodes["e"]["value"]
    shape = (guide.environments, guide.latent_dim)
    if tuple(value.shape) != shape:
        raise UserError(f"{name}.forward samples e of shape {list(value.shape)}, not {list(shape)}")
    if guide.reads_transitions:  # then it is the batch's, and its parameters are shared
        return
    if guide.has_density and not is_point(drawn):
        ours, theirs = guide.posterior().log_prob(value), drawn.log_prob(value)
        if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3):
            raise UserError(
                f"{name}.forward samples e from another distribution than {name}.posterior(), which beliefs, plans "
                "and the next prior are: make them agree"
            )
    _check_gradients(guide, name, value)


def _check_gradients(guide: VariationalGuide, name: str, value: Tensor) -> None:
    """What is drawn, ``[K, d]``, moves with the parameters, for each environment with its own rows alone."""
    posterior = guide.posterior()
    every = {what: one for what, one in guide.named_parameters() if one.requires_grad}
    seen = [value, posterior.rsample(), *([posterior.log_prob(value.detach())] if guide.has_density else [])]
    seen = [one for one in seen if one.requires_grad]
    whole = sum((one.sum() for one in seen), torch.zeros(()))
    reached = torch.autograd.grad(whole, list(every.values()), retain_graph=True, allow_unused=True) if seen else ()
    idle = [what for what, slope in zip(every, reached, strict=True) if slope is None] if seen else list(every)
    if len(idle) == len(every) or (idle and guide.has_density):  # a point may leave its scale alone
        raise UserError(
            f"{name}: its distribution does not move with {idle[0] if idle else 'a parameter'}, so that it learns "
            "nothing: compute it from torch.nn.Parameter with requires_grad, without .detach(), .data, numpy or buffers"
        )
    own = {what: one for what, one in every.items() if what in guide.own_tensors()}
    for k in range(guide.environments if own else 0):
        row = sum((one[k].sum() for one in seen), torch.zeros(()))
        slopes = torch.autograd.grad(row, list(own.values()), retain_graph=True, allow_unused=True)
        for what, slope in zip(own, slopes, strict=True):
            moved = set() if slope is None else set(slope.abs().flatten(1).sum(1).nonzero().flatten().tolist())
            if moved - {k}:
                raise UserError(
                    f"{name}: the posterior of environment {k} moves with {what}[{min(moved - {k})}], another "
                    "environment's, so that an update of one would move all: compute row k from the rows k alone"
                )


def _check_copies(guide: VariationalGuide, name: str) -> None:
    """A guide over other environments is a new one, at the prior, that takes over what this one holds."""
    count, where = guide.environments + 1, f"{name}.for_environments({guide.environments + 1})"
    with faults_of(where):
        other: Any = guide.for_environments(count)
    if getattr(other, "environments", None) != count:
        found = f"one of {other.environments} environments" if hasattr(other, "environments") else f"{other!r}"
        raise UserError(f"{where} must give a guide of so many environments, not {found[:100]}")
    with faults_of(f"{where}.posterior()"):
        posterior = other.posterior()
    check_posterior(other, posterior, count, guide.latent_dim)
    own, theirs = guide.own_tensors(), other.own_tensors()
    if {what: value.shape[1:] for what, value in own.items()} != {
        what: value.shape[1:] for what, value in theirs.items()
    }:
        raise UserError(f"{where} has other parameters or shapes: give it the same settings as {name} itself")
    if {value.data_ptr() for value in own.values()} & {value.data_ptr() for value in theirs.values()}:
        raise UserError(f"{where} shares memory with the guide that it is made from: make new parameters")
    moving = [
        what
        for what, value in other.named_parameters()
        if value.requires_grad and what.split(".")[0] in getattr(guide, "shared", ())
    ]
    if moving:
        raise UserError(f"{where}: {moving[0]} is shared, and must stand still online: requires_grad_(False)")
    if not guide.has_density:
        return
    median = float(posterior.sample((DRAWS,)).abs().median())
    if not PRIOR[0] < median < PRIOR[1]:
        raise UserError(
            f"{where} must begin at the prior N(0, I), and half of its draws lie within {median:.2g} of 0 (of N(0, I): "
            "0.67): give it location 0 and scale 1"
        )
    check_match(other, name)


def _require_finite(what: str, value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        raise UserError(f"{what} gives {list(getattr(value, 'shape', ['no tensor']))}, not {list(shape)}")
    if not value.isfinite().all():
        raise UserError(f"{what} is not finite: {value.detach().flatten()[:3].tolist()}, before anything was trained")
