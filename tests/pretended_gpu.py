"""Searches and updates on a pretended GPU, for machines that have none; a process of its own, since it changes torch.

Tensors on it have no values (torch's fake tensors). An operation on tensors of two devices raises, as on a GPU; and so
does every look at a value, which would make the processor wait for the GPU, and which no CUDA graph can hold.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pyro
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from pyro_dynamics.control import PLANNERS, Planner, TrajectorySampler
from pyro_dynamics.control.gpu_planning import GPUPlanning
from pyro_dynamics.environments import FAMILIES
from pyro_dynamics.guides import GUIDES
from pyro_dynamics.guides.auto import KINDS, AutoConfig, AutoGuide
from pyro_dynamics.inference.compiled.traced_elbo import View, gather, negative_elbo, noise_of, site_of
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel
from pyro_dynamics.transitions import Minibatch

GPU = torch.device("privateuseone:0")
SMALL = EnsembleConfig(2, (16, 16), (0.0,) * 3)
ENVIRONMENTS = 3


class Generator(torch.Generator):
    """Says that it is the GPU's."""

    device = GPU


def there(x: Tensor) -> Tensor:
    """A tensor like this one on the GPU."""
    return torch.empty(x.shape, dtype=x.dtype, device=GPU)


class There(nn.Module):
    """A module as if its tensors were on the GPU."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = [module]  # hidden from torch: it is on the processor
        self.tensors = {name: there(value) for name, value in module.state_dict().items()}

    def forward(self, *arguments: Tensor) -> Any:
        return functional_call(self.module[0], self.tensors, arguments)


def searches() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Two control steps of every planner in every family."""
    for name, family in FAMILIES.items():
        for kind, make in PLANNERS.items():
            yield f"{kind} in {name}", partial(search, family.make_task(), make())


def search(task: Any, planner: Planner) -> Any:
    net = Ensemble(task.input_dim, 1, task.target_dim, SMALL)
    bounds = torch.zeros(task.action_dim), torch.ones(task.action_dim)
    planning = GPUPlanning(TrajectorySampler(net, task, 2, 4), bounds, torch.device("cpu"))
    shape = (ENVIRONMENTS, 5, task.action_dim)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        planning.low, planning.high, planning.generator = there(bounds[0]), there(bounds[1]), Generator()
        planning._sampler = TrajectorySampler(There(net), task, 2, 4)
        of_planner = planning.search(planner, shape)
        state = torch.empty(ENVIRONMENTS, task.state_dim, device=GPU)
        latents = torch.empty(cast(Any, planner.config).iterations, ENVIRONMENTS, 4, 1, device=GPU)
        _, plans = of_planner(state, latents, {})
        return of_planner(state, latents, plans)


def updates() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The objective of the update of every guide that can be compiled; its gradient is where it is."""
    for name, make in GUIDES.items():
        if not make.reads_transitions and name not in ("auto", "point"):  # these by their kinds, and that by Pyro
            yield name, partial(update, make(ENVIRONMENTS, 2))
    for kind in KINDS:
        yield kind, partial(update, AutoGuide(ENVIRONMENTS, 2, AutoConfig(kind)))


def update(guide: Any) -> Any:
    net = Ensemble(6, 2, 4, SMALL)
    model = HierarchicalModel(net, ENVIRONMENTS, 2)
    rows = (SMALL.members, ENVIRONMENTS)
    batch = Minibatch(torch.randn(*rows, 6), torch.randn(*rows, 4), torch.arange(3).expand(rows), 3.0)
    prior = guide.frozen() if hasattr(guide.posterior(), "from_noise") else model.prior()
    free, data = gather(model, guide, prior, batch, 4)
    site = site_of(guide, prior, batch)
    assert site is not None
    noise = tuple(part[0] for part in noise_of(guide.posterior(), site, samples=4, steps=1))
    with FakeTensorMode(allow_non_fake_inputs=True), pyro.validation_enabled(False), torch.no_grad():
        arguments = tree_map(there, (free, {}, noise, data))
        return negative_elbo(model, View(guide), prior, site)(*arguments)


def faults() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What must raise; else all of this would show nothing."""

    def on_gpu(use: Callable[[Tensor], Any]) -> Any:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return use(torch.empty(3, device=GPU))

    yield "a look at a value", lambda: on_gpu(lambda x: bool(x.any()))
    yield "tensors of two devices", lambda: on_gpu(lambda x: x + torch.zeros(3))


def main() -> None:
    """Print a line for each case; exit with 1 if one is not as it should be."""
    _setup_privateuseone_for_python_backend()
    bad = 0
    for name, call in faults():
        try:
            call()
            print(f"{name} does not raise")
            bad += 1
        except RuntimeError as fault:
            print(f"{name} raises {type(fault).__name__}")
    for name, call in [*searches(), *updates()]:
        try:
            devices = {leaf.device for leaf in tree_leaves(call())}
            wrong = "" if devices == {GPU} else f" is on {devices}"
        except Exception as fault:
            wrong = f" raises {type(fault).__name__}: {str(fault)[:200]}"
        print(f"{name}{wrong or ': stays on the GPU'}")
        bad += bool(wrong)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
