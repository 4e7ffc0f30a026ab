"""What a belief or an update of the user's own does, tried out on made-up transitions before anything is trained."""

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
        weights, fresh = clone_state(model), _memory(belief)
        with faults_of(f"{names}, in an update by {len(rows)} transitions,"):
            usable = belief._absorbed(x, y, rows, generator.manual_seed(1))
            first = clone_state(belief.guide)
            belief.restore(belief.snapshot())
        if not usable:
            raise UserError(f"{names}: an update by a first transition leads to no finite posterior")
        for what in ("posterior", "ahead"):
            _require_constant(belief, names, what, guide)
        _require_unseen_kept(belief)
        if is_own(type(belief)):
            _require_memory_followed(belief, fresh, lambda: belief._absorbed(x, y, rows, generator))
        belief.reset()
        belief._absorbed(x, y, rows, generator.manual_seed(1))
        if any(not torch.equal(value, first[name]) for name, value in belief.guide.state_dict().items()):
            raise UserError(
                f"{names} remembers something of an earlier update when the belief has returned to the prior: the "
                "same transitions and the same generator must lead to the same posterior"
            )
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


def _require_memory_followed(belief: Belief, fresh: dict[str, Any], update: Callable[[], bool]) -> None:
    """What the belief remembers beside its guide goes back with it: to a snapshot, and to the prior."""
    name, kept, snapshot = type(belief).__name__, _memory(belief), belief.snapshot()
    update()
    with faults_of(f"{name}.restore()"):
        belief.restore(snapshot)
    if changed := _changed(kept, _memory(belief)):
        raise UserError(
            f"{name} keeps {changed} where an update is taken back, and where an agent is saved: put a copy of it into "
            "what snapshot() gives, and take it from there in restore()"
        )
    with faults_of(f"{name}, in reset(),"):
        belief.reset()
    if changed := _changed(fresh, _memory(belief)):
        raise UserError(
            f"{name} keeps {changed} where the belief returns to the prior, so that the last episode continues in the "
            "next one: set it anew in set_prior()"
        )


def _memory(belief: Belief) -> dict[str, Any]:
    """Copies of the attributes that hold plain values: numbers, tensors, and collections of them."""
    return {name: deepcopy(value) for name, value in vars(belief).items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | deque):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | complex | str | np.generic | np.ndarray | Tensor)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first attribute with another value; empty if there is none."""
    return next((name for name in after if name not in before or not _same(before[name], after[name])), "")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple | deque) and isinstance(other, list | tuple | deque):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Tensor | np.ndarray) and isinstance(other, Tensor | np.ndarray):
        return one.shape == other.shape and np.array_equal(np.asarray(one), np.asarray(other))
    return type(one) is type(other) and bool(one == other)


def _require_unseen_kept(belief: Belief) -> None:
    """A ``prior`` of the user's own is the posterior where nothing is seen, of narrow and of wide ones."""
    if type(belief).prior is Belief.prior or not is_own(type(belief)):
        return
    name, count = f"{type(belief).__name__}.prior()", belief.guide.environments
    seen = torch.arange(count) % 2 == 1
    for posterior in _posteriors(belief.guide):
        with faults_of(name):
            prior = belief.prior(posterior, seen)
            check_posterior(belief, prior, count, belief.guide.latent_dim, "prior")
        for what in ("mean", "stddev"):
            try:
                before, after = (getattr(one, what)[~seen] for one in (posterior, prior))
            except NotImplementedError:  # a density without moments
                continue
            if not torch.allclose(before, after, rtol=1e-3, atol=1e-5):
                raise UserError(
                    f"{name} changes the {what} of environments of which nothing is seen: keep the posterior where "
                    "`seen`, booleans [K], is false, as in torch.where(seen[:, None], new, posterior.stddev)"
                )


def _posteriors(guide: VariationalGuide) -> Iterator[Distribution]:
    """The guide's own, and others of the same family if it can be set to a Gaussian."""
    yield guide.frozen()
    other, size = guide.for_environments(guide.environments), (guide.environments, guide.latent_dim)
    for scale in (0.01, 4.0):
        try:
            other.match(torch.full(size, 0.5), scale**2 * torch.eye(size[1]).repeat(size[0], 1, 1))
        except UserError:  # it is none that can
            return
        yield other.frozen()
