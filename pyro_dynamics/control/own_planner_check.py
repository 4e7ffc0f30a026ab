"""What a planner of the user's own does, tried out on a made-up objective before anything is trained."""

from collections.abc import Callable

import torch
from torch import Tensor

from pyro_dynamics.control.contract import Planner
from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.registry import is_own
from pyro_dynamics.seeding import drawing_from


@torch.no_grad()
def check_own_planner(make_planner: Callable[[], Planner], horizon: int, action_dim: int) -> None:
    """Plan twice for two problems, and refuse a planner that breaks, or gives something else than plans.

    Planners of this project, whose tests say the same, are left alone.

    Args:
        make_planner: makes the planner.
        horizon: H.
        action_dim: A.

    Raises:
        UserError: naming the planner and what is wrong.
    """
    planner = make_planner()
    if not is_own(type(planner)):
        return
    name, shape, generator = (
        f"{type(planner).__name__}.plan()",
        (2, horizon, action_dim),
        torch.Generator().manual_seed(0),
    )

    def value(candidates: Tensor) -> Tensor:
        found = tuple(getattr(candidates, "shape", ()))
        if len(found) != 4 or (found[0], *found[2:]) != shape:
            raise UserError(f"{name} evaluates candidates of shape {list(found)}, not [K, C, H, A]")
        return -candidates.square().sum((-1, -2))

    for _ in range(2):
        with faults_of(name), drawing_from(generator):
            plan = planner.plan(lambda: value, shape, generator)
        if not isinstance(plan, Tensor) or plan.dtype != torch.float32:
            raise UserError(
                f"{name} gives a {getattr(plan, 'dtype', type(plan).__name__)}, not a tensor of torch.float32"
            )
        if tuple(plan.shape) != shape:
            raise UserError(f"{name} gives {list(plan.shape)}, not {list(shape)}")
        if not plan.isfinite().all() or plan.abs().max() > 1 + 1e-5:
            raise UserError(f"{name} gives actions that are not all in [-1, 1], where actions are planned")
    with faults_of(f"{type(planner).__name__}.reset_plans() and plans()"):
        planner.reset_plans(torch.tensor([True, False]))
        kept = planner.plans()
    if not all(value is None or isinstance(value, Tensor) for value in kept.values()):
        raise UserError(f"{type(planner).__name__}.plans() must give tensors or None by attribute, not {kept}")
