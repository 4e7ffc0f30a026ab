"""What a planner of the user's own does, tried out on a made-up objective before anything is trained."""

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from pyro_dynamics.control.contract import Planner
from pyro_dynamics.errors import UserError, faults_of
from pyro_dynamics.registry import is_own
from pyro_dynamics.seeding import TORCH

BEST = 0.5
"""The best value of every action for the made-up objective: not the middle, where a search starts."""


@torch.no_grad()
def check_own_planner(make_planner: Callable[[], Planner], horizon: int, action_dim: int) -> None:
    """Plan twice for two problems, and the same again, and refuse a planner that breaks, or gives something else.

    Planners of this project, whose tests say the same, are left alone.

    Args:
        make_planner: makes the planner.
        horizon: H.
        action_dim: A.

    Raises:
        UserError: naming the planner and what is wrong.
    """
    planner, again = make_planner(), make_planner()
    if not is_own(type(planner)):
        return
    name, shape = f"{type(planner).__name__}.plan()", (2, horizon, action_dim)
    plans, same = (_plans(one, name, shape) for one in (planner, again))
    if not all(map(torch.equal, plans, same)):
        raise UserError(
            f"{name} gives other plans for the same generator: draw everything from it (generator=), so that the same "
            "seed gives the same results"
        )
    _require_memory(planner, name, plans[-1])
    _require_memory_named(make_planner, planner, name, shape, plans)
    with faults_of(f"{type(planner).__name__}.reset_plans() and plans()"):
        planner.reset_plans(torch.tensor([True, False]))
        kept = planner.plans()
    if not all(value is None or isinstance(value, Tensor) for value in kept.values()):
        raise UserError(f"{type(planner).__name__}.plans() must give tensors or None by attribute, not {kept}")


def _require_memory_named(
    make_planner: Callable[[], Planner], planner: Planner, name: str, shape: tuple[int, int, int], plans: list[Tensor]
) -> None:
    """A planner that is saved and loaded plans as if it had not been, and after a reset as a new one does."""
    kind, loaded = type(planner).__name__, make_planner()
    with faults_of(f"{kind}.plans()"):
        for attribute, value in planner.plans().items():
            setattr(loaded, attribute, copy.deepcopy(value))
    following, same = (_plans(one, name, shape) for one in (planner, loaded))
    if not all(map(torch.equal, following, same)):
        raise UserError(
            f"{kind} remembers more than its plans() gives, so that a saved agent would act otherwise: name all of it "
            "there, tensors by their attribute"
        )
    with faults_of(f"{kind}.reset()"):
        planner.reset()
    if not all(map(torch.equal, plans, _plans(planner, name, shape))):
        raise UserError(
            f"{kind}.reset() does not forget all that {name} remembers: an episode would begin with the last"
        )


def _plans(planner: Planner, name: str, shape: tuple[int, int, int]) -> list[Tensor]:
    """Two plans, one after the other, from the same generator whenever this is called."""
    generator, plans = torch.Generator().manual_seed(0), []

    def value(candidates: Tensor) -> Tensor:
        found = tuple(getattr(candidates, "shape", ()))
        if len(found) != 4 or (found[0], *found[2:]) != shape:
            raise UserError(f"{name} evaluates candidates of shape {list(found)}, not [K, C, H, A]")
        return -(candidates - BEST).square().sum((-1, -2))

    for _ in range(2):
        with faults_of(name), _untouched(name):
            plan = planner.plan(lambda: value, shape, generator)
        if not isinstance(plan, Tensor) or plan.dtype != torch.float32:
            raise UserError(
                f"{name} gives a {getattr(plan, 'dtype', type(plan).__name__)}, not a tensor of torch.float32"
            )
        if tuple(plan.shape) != shape:
            raise UserError(f"{name} gives {list(plan.shape)}, not {list(shape)}")
        if not plan.isfinite().all() or plan.abs().max() > 1 + 1e-5:
            raise UserError(f"{name} gives actions that are not all in [-1, 1], where actions are planned")
        plans.append(plan.clone())
    return plans


@contextmanager
def _untouched(name: str) -> Iterator[None]:
    """Refuse draws from the global generators, which no seed of a run decides; they are put back as they were."""
    with TORCH:
        of_torch, of_python = torch.get_rng_state(), random.getstate()
        of_numpy = np.random.get_state(legacy=False)  # noqa: NPY002  # the global generator is what is looked at
        try:
            yield
            drawn = {
                "torch": not torch.equal(torch.get_rng_state(), of_torch),
                "numpy": str(np.random.get_state(legacy=False)) != str(of_numpy),  # noqa: NPY002
                "random": random.getstate() != of_python,
            }
        finally:
            torch.set_rng_state(of_torch)
            np.random.set_state(of_numpy)  # noqa: NPY002
            random.setstate(of_python)
    if used := [module for module, changed in drawn.items() if changed]:
        raise UserError(
            f"{name} draws from the global generator of {used[0]}, so that the same seed gives other results: draw "
            "from the generator that it is given, as in torch.randn(..., generator=generator)"
        )


def _require_memory(planner: Planner, name: str, plan: Tensor) -> None:
    """Refuse a planner that searches anew at every step, unless its ``plans()`` says that nothing is remembered."""
    if type(planner).plans is not Planner.plans or plan.shape[1] == 1:  # of a single action nothing is left
        return
    if planner.mean is None or (plan.any() and not planner.mean.any()):
        raise UserError(
            f"{name} leaves nothing in self.mean, where the next step's search starts: set it, as in self.mean = "
            "shifted(plan, plan[:, -1:]), or let plans() give {} where nothing is remembered"
        )
