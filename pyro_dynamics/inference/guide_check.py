"""Whether a guide goes with a model, and whether posteriors have one row for each environment: checked when made."""

import torch
from pyro.distributions import MaskedDistribution
from torch.distributions import Distribution, Independent

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError, faults_of


def check_guide(model: DynamicsModel, guide: VariationalGuide) -> None:
    """Refuse, in words, a guide that cannot go with the model, or that the rest cannot work with.

    Raises:
        UserError: if it is no guide of one posterior for each environment, or has other sizes than the model, or says
            that it has a density where it has none.
    """
    name = type(guide).__name__
    if "_parameters" not in vars(guide):
        raise UserError(f"{name}.__init__ must begin with super().__init__(environments, latent_dim)")
    if not hasattr(guide, "posterior") or not hasattr(guide, "for_environments"):
        raise UserError(
            f"{name} does not keep the contract of pyro_dynamics.guides.Guide; an AutoGuide over the whole model would "
            "be joint over environments: give its name to pyro_dynamics.guides.AutoGuide, which makes one for each "
            "environment"
        )
    for what, size in (("environments", "environments"), ("latent dimensions", "latent_dim")):
        if getattr(guide, size) != getattr(model, size):
            raise UserError(f"the guide has {getattr(guide, size)} {what}, the model {getattr(model, size)}")
    if not guide.infers:
        return
    if next(guide.parameters(), None) is None:
        raise UserError(f"{name} has no parameters: make them torch.nn.Parameter, [K, ...], in its constructor")
    with faults_of(f"{name}.posterior()"):
        posterior = guide.posterior()
    check_posterior(guide, posterior, guide.environments, guide.latent_dim)
    if is_point(posterior) and guide.has_density:
        raise UserError(
            f"{name}.posterior() is a Delta, which has no density and cannot be updated online: set has_density = "
            "False in the class (it then trains and plans only), or use a distribution with a density"
        )
    if not posterior.has_rsample:
        raise UserError(f"{name}.posterior() is a {type(posterior).__name__} without rsample, which gradients need")
    for parameter, value in guide.own_tensors().items():
        if value.shape[:1] != (guide.environments,):
            raise UserError(
                f"{name}: {parameter} has shape {list(value.shape)}, and its first dimension must be the "
                f"{guide.environments} environments; name it in the class's `shared` if all environments share it"
            )


def require_float32(model: DynamicsModel) -> None:
    """Refuse a model of another type of number: all data are float32.

    Raises:
        UserError: naming the first of its weights that is.
    """
    for name, value in model.named_parameters():
        if value.dtype != torch.float32:
            raise UserError(
                f"{type(model).__name__}: {name} is {value.dtype}, and must be torch.float32: make both within "
                "`with pyro_dynamics.processor.computing():`, or where torch.get_default_dtype() is torch.float32"
            )


def check_posterior(
    part: object, posterior: object, environments: int, latent_dim: int, method: str = "posterior"
) -> None:
    """Refuse anything but a distribution with batch shape ``[K]`` and event shape ``[d]``.

    Args:
        part: the guide or belief that gave it.
        posterior: what it gave.
        environments: number K of environments.
        latent_dim: size d of each latent.
        method: of the part, that gave it.

    Raises:
        UserError: naming the part and what is wrong.
    """
    name = f"{type(part).__name__}.{method}()"
    if not isinstance(posterior, Distribution):
        raise UserError(f"{name} gives a {type(posterior).__name__}, not a torch Distribution")
    batch, event = tuple(posterior.batch_shape), tuple(posterior.event_shape)
    if (batch, event) == ((environments,), (latent_dim,)):
        return
    remedy = ""
    if batch == (environments, latent_dim) and event == ():
        remedy = ": add .to_event(1)"
    elif event == (latent_dim,) and batch in ((), (1,)):
        remedy = f": it is one posterior for all environments; make its parameters [{environments}, ...]"
    raise UserError(
        f"{name} has batch shape {list(batch)} and event shape {list(event)}, and must have "
        f"[{environments}] (environments) and [{latent_dim}] (latent dimensions){remedy}"
    )


def is_point(posterior: Distribution) -> bool:
    """Whether all of it is at one point (Pyro's Delta), so that it has no density."""
    while isinstance(posterior, Independent | MaskedDistribution):
        posterior = posterior.base_dist
    return type(posterior).__name__ == "Delta"
