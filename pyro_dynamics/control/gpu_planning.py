"""A planner's whole search on a GPU, as one CUDA graph: proposals, trajectories and elites of all iterations."""

import copy
import warnings
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from pyro_dynamics.control.contract import Objective, Planner, in_units
from pyro_dynamics.control.trajectory_sampling import TrajectorySampler
from pyro_dynamics.cuda_graphs import Captured, shapes
from pyro_dynamics.errors import first_line
from pyro_dynamics.tasks import Task

Plans = dict[str, Tensor]
"""What a planner remembers from step to step, those that it has."""


class GPUPlanning:
    """Plans on a device with copies of networks and planner; what a planner remembers stays on the processor.

    The draws are others than the processor's, from the same distributions. Networks and task are copied anew, and the
    search is captured anew, when one of their tensors has changed: after a training, that is.

    Args:
        sampler: expected returns under the model, on the processor.
        bounds: lower and upper bounds of the actions, each ``[A]``.
        device: where to plan.
    """

    def __init__(self, sampler: TrajectorySampler, bounds: tuple[Tensor, Tensor], device: torch.device) -> None:
        self.sampler, self.device = sampler, device
        self.low, self.high = (bound.to(device) for bound in bounds)
        self.generator = torch.Generator(device)
        self._copied: list[Tensor] | None = None
        self._captured: dict[Any, Captured] = {}

    def plan(self, planner: Planner, state: Tensor, latents: Tensor, shape: tuple[int, int, int], seed: int) -> Tensor:
        """The planner's :meth:`~Planner.plan`; what it remembers is updated.

        Args:
            planner: on the processor.
            state: where K environments stand, ``[K, S]``.
            latents: one draw for each particle in each of I iterations, ``[I, K, P, d]``.
            shape: problems K, horizon H and action size A.
            seed: of all other draws.

        Returns:
            ``[K, H, A]`` in [-1, 1].
        """
        self._copy_what_changed()
        plans = {name: value for name, value in planner.plans().items() if value is not None}
        arguments = (state, latents, plans)
        key = (type(planner), planner.config, shape, shapes(arguments))
        self.generator.manual_seed(seed)
        if key not in self._captured:
            search = self.search(planner, shape)
            self._captured[key] = Captured(search, self.device, self.generator, *arguments)
            self.generator.manual_seed(seed)
        found: tuple[Tensor, Plans] = self._captured[key](*arguments)
        plan, plans = found
        for name, value in plans.items():
            setattr(planner, name, value)
        return plan

    def search(
        self, planner: Planner, shape: tuple[int, int, int]
    ) -> Callable[[Tensor, Tensor, Plans], tuple[Tensor, Plans]]:
        """The planner's search as a function of tensors on the device: of state, latents, and what was remembered."""
        twin, sampler = copy.copy(planner), self._sampler

        def search(state: Tensor, latents: Tensor, plans: Plans) -> tuple[Tensor, Plans]:
            drawn = cycle(latents)

            def objective() -> Objective:
                e = next(drawn)
                return lambda c: sampler.returns(state, in_units(c, self.low, self.high), e, self.generator)

            twin.reset()
            for name, value in plans.items():
                setattr(twin, name, value)
            plan = twin.plan(objective, shape, self.generator)
            return plan, {name: value for name, value in twin.plans().items() if value is not None}

        return search

    def _copy_what_changed(self) -> None:
        """Copies of networks and task on the device, new ones where a value has changed."""
        networks = self.sampler.dynamics
        module = networks if isinstance(networks, nn.Module) else nn.Module()  # a function has no tensors
        own = [*module.state_dict().values(), *self.sampler.task.state_dict().values()]
        if self._copied is not None and len(own) == len(self._copied) and all(map(_same, own, self._copied)):
            return
        self._copied = [value.clone() for value in own]
        self._captured.clear()
        there = copy.deepcopy(module).to(self.device) if networks is module else networks
        sampler = copy.copy(self.sampler)
        sampler.dynamics = there
        self._sampler = sampler.for_planning()
        if self.device.type == "cuda":
            self._sampler.task = _in_few_kernels(self.sampler.task)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether all values are the same; NaN is the same as NaN."""
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _in_few_kernels(task: Task) -> Task:
    """A copy of the task with functions that torch.compile has fused.

    One by one, their many small kernels would take longer than the networks.
    """
    fused, own = copy.copy(task), copy.copy(task)  # its tensors stay where they are, whatever the task learns
    for name in ("inputs", "next_state", "reward", "terminated"):
        setattr(fused, name, _compiled(getattr(own, name)))
    return fused


def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function by torch.compile; as it is, with a warning, if that cannot take it."""
    from torch._dynamo.exc import TorchDynamoException  # here, as this takes as long as all of torch

    fast = torch.compile(function)

    def call(*tensors: Tensor) -> Tensor:
        nonlocal fast
        try:
            return fast(*tensors)
        except TorchDynamoException as fault:
            what = f"{function.__name__} of the task cannot be compiled"
            warnings.warn(f"plans take longer: {what}: {first_line(fault)}", stacklevel=2)
            fast = function
            return function(*tensors)

    return call
