"""What of a model is the user's own, and what follows from that for the paths that know the project's model alone."""

from typing import Any, TypeVar

import pyro
import torch
from pyro import poutine
from torch import nn
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference.gaussians import gaussian_moments
from pyro_dynamics.observation import has_default_observation, observation
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch

M = TypeVar("M", bound=DynamicsModel)
MODULE = frozenset(vars(nn.Module())) | {"training"}
"""What torch keeps in every module."""
LIBRARIES = {"builtins", "pyro", "pyro_dynamics", "torch", "typing"}
"""Whose classes have no settings of the user's."""


def has_default_forward(model: object) -> bool:
    """Whether the joint density is known: the prior times the hook's. Of a model that does not say so it is not."""
    return bool(getattr(model, "has_default_forward", False))


def has_default_prior(model: object) -> bool:
    """Whether p(e) is N(0, I)."""
    return bool(getattr(model, "has_default_prior", not hasattr(model, "prior")))


def has_population(model: object) -> bool:
    """Whether p(e) of new environments was learned."""
    return bool(getattr(model, "has_population", False))


def population(model: DynamicsModel) -> Distribution:
    """p(e) of environments that were not trained on, batch shape ``[K]``: the model's prior, unless one was learned."""
    learned = getattr(model, "population", None)
    distribution: Distribution = model.prior() if learned is None else learned()
    return distribution


def own_program(model: object) -> str | None:
    """What of the Pyro program is the user's own beyond the hook, in words; None if nothing is."""
    own = [
        name
        for name, default in (("forward", has_default_forward(model)), ("prior", has_default_prior(model)))
        if not default
    ]
    return f"{type(model).__name__} has its own {' and '.join(own)}" if own else None


def constants_of(model: DynamicsModel) -> tuple[Any, ...] | str:
    """What a compiled graph of a user's hook takes for constants; in words, what is there that no graph can follow.

    Numbers and texts that the model, its class or its own modules keep as plain attributes; tensors that are
    registered are arguments of the graph. The project's networks (``likelihood``) are left out: their settings stay.
    """
    if has_default_observation(model):
        return ()
    found: list[Any] = []
    networks = set(map(id, model.likelihood.modules())) if isinstance(model.likelihood, nn.Module) else set()
    for module in model.modules() if isinstance(model, nn.Module) else [model]:
        if id(module) in networks:
            continue
        own = {name: value for name, value in vars(module).items() if name not in MODULE and name != "environments"}
        kinds = [kind for kind in type(module).__mro__ if kind.__module__.partition(".")[0] not in LIBRARIES]
        of_class = [item for kind in kinds for item in vars(kind).items() if not _is_code(*item)]
        for name, value in [*own.items(), *of_class]:
            if not _is_plain(value):
                return f"{type(module).__name__} keeps {name}, a {type(value).__name__}, as a plain attribute"
            found.append((type(module), name, value))
    return (type(model), *found)


def _is_code(name: str, value: object) -> bool:
    """Whether an attribute of a class is no value: a method, a property, or what Python keeps."""
    return callable(value) or hasattr(value, "__get__") or name.startswith(("__", "_abc_"))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | type | torch.dtype | torch.device)


def over_environments(model: M, environments: int) -> M:
    """The model over another number of environments.

    Raises:
        UserError: if that is a model of another class.
    """
    other = model.for_environments(environments)
    if type(other) is not type(model):
        own, found = type(model).__name__, type(other).__name__
        raise UserError(
            f"{own}.for_environments gives a {found}: it must give a {own}, or be left to HierarchicalModel"
        )
    return other


def begin_at_prior(model: DynamicsModel, guide: VariationalGuide) -> None:
    """Move a fresh guide, which is at N(0, I), to the model's p(e) of new environments.

    Raises:
        UserError: if the guide cannot become that prior.
    """
    prior = population(model)
    if not guide.infers or (has_default_prior(model) and not has_population(model)):
        return
    try:
        wanted = gaussian_moments(prior)
        guide.match(*wanted)
        same = all(
            torch.allclose(*pair, rtol=1e-3, atol=1e-5)
            for pair in zip(gaussian_moments(guide.frozen()), wanted, strict=True)
        )
    except UserError:
        same = False
    if not same:
        raise UserError(
            f"{type(guide).__name__} cannot begin at the prior of {type(model).__name__}, as beliefs about new "
            "environments do: it takes a Gaussian prior, and a Gaussian guide with such covariances (full-rank)"
        )


@torch.no_grad()
def check_model(model: DynamicsModel, inputs: int, targets: int) -> None:
    """Refuse, in words, a user's model that predictions could not be made with.

    Planning and predictions draw from the hook, inference runs the Pyro program: both must say the same likelihood.

    Args:
        model: a Pyro model with a module ``likelihood``.
        inputs: size F + A of features and action.
        targets: size T.

    Raises:
        UserError: if the hook's distribution has another shape than the targets, or ``forward`` observes targets
            from another distribution than the hook's.
    """
    own_forward = not has_default_forward(model)
    if has_default_observation(model) and not own_forward:
        return
    name, shape = type(model).__name__, (model.likelihood.members, 3)
    with drawing_from(torch.Generator().manual_seed(0)), pyro.validation_enabled(False):
        latent = torch.randn(model.environments, model.latent_dim)
        environment = torch.arange(shape[1]).expand(shape) % model.environments
        batch = Minibatch(torch.randn(*shape, inputs), torch.randn(*shape, targets), environment, float(shape[1]))
        delta = observation(model, batch.inputs, latent[environment])
        found = (tuple(delta.batch_shape), tuple(delta.event_shape))
        if found != (shape, (targets,)):
            raise UserError(
                f"{name}.observation must give a distribution of batch shape [M, B], here {list(shape)}, and event "
                f"shape [T], here [{targets}], not {list(found[0])} and {list(found[1])}: end it with .to_event(1)"
            )
        if own_forward:
            nodes: dict[str, Any] = poutine.trace(poutine.condition(model, {"e": latent})).get_trace(batch).nodes
            same = {"e", "delta"} <= nodes.keys() and bool(nodes["delta"]["is_observed"])
            if same:
                ours, theirs = delta.log_prob(batch.targets), nodes["delta"]["fn"].log_prob(batch.targets)
                same = ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
            if not same:
                raise UserError(
                    f"{name}.forward does not observe delta, given e, from what {name}.observation gives, which "
                    "planning and predictions draw from: write the likelihood in observation"
                )
