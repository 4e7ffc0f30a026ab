"""What a belief or an update of the user's own does, tried out on made-up transitions before anything is trained."""

from collections.abc import Callable

import torch
from torch.distributions import Distribution

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.inference.beliefs.contract import Belief, clone_state
from pyro_dynamics.inference.guide_check import check_posterior
from pyro_dynamics.registry import is_own
from pyro_dynamics.seeding import drawing_from


def check_own_belief(
    make: Callable[[DynamicsModel, VariationalGuide], Belief],
    model: DynamicsModel,
    guide: VariationalGuide,
    inputs: int,
    targets: int,
) -> None:
    """Update a belief about other environments once, and refuse one that breaks, or that is none afterwards.

    Args:
        make: makes the belief out of a model and its guide.
        model: has passed ``check_model``.
        guide: has passed ``check_guide``.
        inputs: size F + A of features and action.
        targets: size T.

    Raises:
        UserError: naming the belief or the update, if it is the user's own, and what is wrong.
    """
    if not guide.has_density:
        return
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(min(3, guide.environments))
    x, y = (torch.randn(len(rows), size, generator=generator) for size in (inputs, targets))
    with drawing_from(generator):
        belief = make(model, guide.for_environments(guide.environments))
        parts = (belief, getattr(belief, "update_rule", None))
        names = " with ".join(type(part).__name__ for part in parts if is_own(type(part)))
        _require_constant(belief, names, "posterior", guide)
        weights = clone_state(model)
        with faults_of(f"{names}, in an update by {len(rows)} transitions,"):
            usable = belief._absorbed(x, y, rows, generator)
            belief.restore(belief.snapshot())
        if not usable:
            raise UserError(f"{names}: an update by a first transition leads to no finite posterior")
        for what in ("posterior", "ahead"):
            _require_constant(belief, names, what, guide)
    if any(not torch.equal(value, weights[name]) for name, value in model.state_dict().items()):
        raise UserError(f"{names} changes the model's weights, which stand still online (Eq. 5)")


def _require_constant(belief: Belief, names: str, what: str, guide: VariationalGuide) -> None:
    """What a method of the belief gives is a distribution of the right shape, finite, and no longer moves."""
    with faults_of(f"{names}, in {what}(),"):
        found: Distribution = getattr(belief, what)()
        check_posterior(belief, found, guide.environments, guide.latent_dim, what)
        if found.mean.requires_grad:
            raise UserError(
                f"{names}: {what}() must be a constant: take self.guide.frozen(), not self.guide.posterior()"
            )
        if not found.sample().isfinite().all():
            raise UserError(f"{names}: {what}() draws numbers that are not finite")
