"""Eq. 5 in one compiled call: draws, gradients and Adam of all steps in one graph, by ``torch.compile``.

On a GPU the steps are one CUDA graph; what goes in and comes out stays on the processor.
The objective, the draws and their order are those of Pyro's ``TraceMeanField_ELBO`` with vectorised particles, so that
the result is the same to float32 accuracy. The model's hook and the guide are called, not written again.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import pyro
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.distributions import Distribution
from torch.func import grad
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from pyro_dynamics.contracts import DynamicsModel, Likelihood, VariationalGuide
from pyro_dynamics.cuda_graphs import Captured
from pyro_dynamics.errors import first_line
from pyro_dynamics.inference.compiled.fx_graph import (
    CompilationFailed,
    for_this_processor,
    hoisted,
    quiet,
    traced,
    warn_once,
)
from pyro_dynamics.inference.compiled.reparameterisation import Tensors
from pyro_dynamics.inference.compiled.traced_elbo import (
    Data,
    Site,
    View,
    gather,
    negative_elbo,
    noise_of,
    not_compilable,
    site_of,
)
from pyro_dynamics.inference.user_model import constants_of, own_program
from pyro_dynamics.observation import has_default_observation
from pyro_dynamics.seeding import drawing_from
from pyro_dynamics.transitions import Minibatch

LIMIT = 16
"""The most graphs for one likelihood: each takes seconds to compile. Further shapes go Pyro's way."""

ROWS = 8
"""Up to so many rows, values and slopes together, the likelihood is linearised: the weights are then read once a step,
where a backward pass reads them twice. With more rows it is the products that take the time, and backward is faster."""

State = tuple[Tensors, Tensors, Tensors]
"""The guide's free parameters, and Adam's first and second moments."""


Step = Callable[[State, tuple[Tensor, ...], Tensor, Data], State]
"""One step of Adam, by draws ``[samples, K, ...]`` and rates ``[2]``."""
Loop = Callable[[State, tuple[Tensor, ...], Tensor, Data], State]
"""All steps, by draws ``[steps, samples, K, ...]`` and rates ``[steps, 2]``."""


class Steps(Protocol):
    """The number of steps, their learning rate and draws: what is read of :class:`SVIUpdateConfig`."""

    @property
    def steps(self) -> int:
        """Gradient steps."""

    @property
    def learning_rate(self) -> float:
        """Of Adam."""

    @property
    def samples(self) -> int:
        """Draws of e for each gradient."""


class Problem(NamedTuple):
    """What is fitted, to what, and how: the arguments of :func:`fit_compiled`."""

    config: Steps
    model: DynamicsModel
    guide: VariationalGuide
    prior: Distribution
    batch: Minibatch


class Compiled(NamedTuple):
    """The steps of guides of one kind on data of one shape."""

    loop: Loop
    site: Site


_compiled: WeakKeyDictionary[Likelihood, dict[object, Compiled | None]] = WeakKeyDictionary()


def fit_compiled(
    config: Steps,
    model: DynamicsModel,
    guide: VariationalGuide,
    prior: Distribution,
    batch: Minibatch,
    generator: torch.Generator,
) -> bool:
    """Fit ``guide`` by the steps of :class:`SVIUpdate`, if they can be compiled.

    They can where the model has no ``forward`` or ``prior`` of its own, and the guide's Pyro site is its posterior or a
    point at its mean, if posterior and prior are Gaussians; and where it has the path gradient, if the posterior says
    how its draws are made of noise.

    Args:
        config: steps, rate and samples; see :class:`SVIUpdateConfig`.
        model: its hook ``observation`` says the likelihood. Its tensors may change between updates; numbers that the
            network keeps as plain attributes are constants of the graph and must not.
        guide: see :mod:`pyro_dynamics.guides.contract`.
        prior: batch shape ``[K]``.
        batch: the data.
        generator: source of the guide's samples.

    Returns:
        Whether it was done; where not, nothing was changed or drawn, and one warning per process has said why.
    """
    before = generator.get_state()
    try:
        with pyro.validation_enabled(False):
            return _fit(Problem(config, model, guide, prior, batch), generator)
    except CompilationFailed as fault:
        generator.set_state(before)
        with suppress(CompilationFailed):
            _compiled.setdefault(model.likelihood, {})[_kind(model, guide)] = None
        warn_once(f"the update cannot be compiled and goes the slow way: {fault}")
        return False


def _fit(problem: Problem, generator: torch.Generator) -> bool:
    config, model, guide, prior, batch = problem
    known = _compiled.setdefault(model.likelihood, {})
    posterior = guide.posterior()
    kind = _kind(model, guide)
    if known.get(kind, ...) is None or not batch.environment.shape[1]:
        return False
    if own := own_program(model):
        raise CompilationFailed(own)
    free, data = gather(model, guide, prior, batch, 1 << (batch.environment.shape[1] - 1).bit_length())
    at_start = {name: value.detach().clone() for name, value in free.items()}
    # Moments apart from each other: a loop's state must not share memory.
    first, second = ({name: torch.zeros_like(value) for name, value in at_start.items()} for _ in range(2))
    start = (at_start, first, second)
    device = getattr(model.likelihood, "accelerator", None)
    key = (kind, type(prior), config.samples, config.steps, device, _shapes(start), _shapes(data))
    if key not in known:
        if len(known) >= LIMIT:
            warn_once(f"there are more than {LIMIT} shapes of updates: the others are not compiled")
            return False
        known[key] = _build(problem, start, data, device)
    ready = known[key]
    if ready is None:
        warn_once(f"{not_compilable(guide)}: its updates are not compiled")
        return False
    noise, rates = _draw(config, posterior, ready.site, generator), _rates(config, batch.targets)
    found, _, _ = _run(ready.loop, start, noise, rates, data)
    with torch.no_grad():
        for name, value in free.items():
            value.copy_(found[name])
    return True


def _build(problem: Problem, start: State, data: Data, device: torch.device | None) -> Compiled | None:
    """The compiled steps, or None where the guide's site in its Pyro program is something else than its posterior."""
    config, model, guide, prior, batch = problem
    site = site_of(guide, prior, batch)
    if site is None:
        return None
    noise = _draw(config, guide.posterior(), site, torch.Generator())
    rates = _rates(config, data.targets)
    rows = config.samples * data.targets.shape[1] * (1 + guide.latent_dim)
    can_linearise = has_default_observation(model) and hasattr(model.likelihood, "linearised")
    linearised = can_linearise and guide.infers and rows <= ROWS
    step = _step(model, View(guide), prior, site, linearised)
    arguments = (start, noise, rates, data)
    try:
        if device is not None:
            arguments = tree_map(lambda x: x.to(device), arguments)
        at_start, of_all, rate, known = arguments
        graph = traced(step, at_start, tuple(part[0] for part in of_all), rate[0], known)
        constants = len(tree_leaves(data))
        loop = compile_loop(graph, constants) if device is None else gpu_loop(graph, constants, device, *arguments)
    except Exception as fault:
        raise CompilationFailed(first_line(fault)) from fault
    with quiet():
        _run(loop, start, noise, rates, data)  # compiles it
    return Compiled(loop, site)


@torch.no_grad()
def _run(loop: Loop, start: State, noise: tuple[Tensor, ...], rates: Tensor, data: Data) -> State:
    try:
        return loop(start, noise, rates, data)
    except Exception as fault:  # whatever the compiler stumbles over
        raise CompilationFailed(first_line(fault)) from fault


def _step(model: DynamicsModel, view: View, prior: Distribution, site: Site, linearised: bool) -> Step:
    """One step of Adam on the negative ELBO of Eq. 5, as a function of tensors."""
    loss = negative_elbo(model, view, prior, site, linearised)

    def step(state: State, noise: tuple[Tensor, ...], rates: Tensor, data: Data) -> State:
        parameters, first, second = state
        gradient = grad(loss)(parameters, {}, noise, data)
        first = {name: 0.9 * first[name] + 0.1 * slope for name, slope in gradient.items()}
        second = {name: 0.999 * second[name] + 0.001 * slope.square() for name, slope in gradient.items()}
        moved = {
            name: value - rates[0] * first[name] / (second[name].sqrt() / rates[1] + 1e-8)
            for name, value in parameters.items()
        }
        return moved, first, second

    return step


def plain_loop(step: Step, _: int = 0) -> Loop:
    """The steps one after the other, not compiled: what :func:`compile_loop` must equal."""

    def loop(state: State, noise: tuple[Tensor, ...], rates: Tensor, data: Data) -> State:
        for index, rate in enumerate(rates):
            state = step(state, tuple(part[index] for part in noise), rate, data)
        return state

    return loop


def compile_loop(step: GraphModule, constants: int) -> Loop:
    """The steps as a loop inside of one compiled graph: entering a graph costs more than a step of one draw.

    Args:
        step: a :data:`Step`.
        constants: how many tensors its data has; what they alone decide is computed once, before the loop.
    """
    before, within = hoisted(step, constants)

    def loop(state: State, noise: tuple[Tensor, ...], rates: Tensor, data: Data) -> State:
        given = before(*tree_leaves(data))

        def goes_on(index: Tensor, *state: Tensors) -> Tensor:
            return index < len(rates)

        def body(index: Tensor, *state: Tensors) -> tuple[Any, ...]:
            at = index[None]
            drawn = tuple(part.index_select(0, at)[0] for part in noise)
            leaves, structure = tree_flatten(state)
            after = within(*leaves, *drawn, rates.index_select(0, at)[0], *given)
            return index + 1, *tree_unflatten(after, structure)

        after: State = while_loop(goes_on, body, (torch.tensor(0), *state))[1:]
        return after

    # torch.compile keeps what it compiled with the code, and stops at eight graphs: every loop gets code of its own.
    loop.__code__ = loop.__code__.replace()
    # The wrapper around the kernels in C++ too: in Python it takes a fifth of the time. It is compiled apart from them,
    # with little optimisation: a flow's would take minutes.
    options: dict[str, Any] = {"cpp_wrapper": True, "cpp_wrapper_build_separate": True, "size_asserts": False}
    return torch.compile(loop, fullgraph=True, dynamic=False, options={**options, **for_this_processor()})


def gpu_loop(
    step: GraphModule, constants: int, device: torch.device, *arguments: State | tuple[Tensor, ...] | Tensor | Data
) -> Loop:
    """The steps as one CUDA graph, each of kernels that ``torch.compile`` has fused.

    Args:
        step: a :data:`Step` of tensors on the device.
        constants: how many tensors its data has.
        device: the GPU.
        *arguments: those of the loop.
    """
    before, within = hoisted(step, constants)
    compiled = torch.compile(within, fullgraph=True, dynamic=False)

    def loop(state: State, noise: tuple[Tensor, ...], rates: Tensor, data: Data) -> State:
        given = before(*tree_leaves(data))
        for index in range(len(rates)):
            leaves, structure = tree_flatten(state)
            after = compiled(*leaves, *(part[index] for part in noise), rates[index], *given)
            state = tree_unflatten(after, structure)
        return state

    return Captured(torch.no_grad()(loop), device, None, *arguments)


def _draw(config: Steps, posterior: Distribution, site: Site, generator: torch.Generator) -> tuple[Tensor, ...]:
    """The draws of all steps, ``[steps, samples, K, ...]``, in the order in which Pyro's steps would draw them."""
    with drawing_from(generator), torch.no_grad():
        return noise_of(posterior, site, config.samples, config.steps)


def _rates(config: Steps, like: Tensor) -> Tensor:
    """Adam's rate over the first bias correction, and the root of the second one: ``[steps, 2]``."""
    counts = range(1, config.steps + 1)
    return like.new_tensor([[config.learning_rate / (1 - 0.9**t), (1 - 0.999**t) ** 0.5] for t in counts])


def _kind(model: DynamicsModel, guide: VariationalGuide) -> tuple[Any, ...]:
    """What graphs of one network differ by, beside shapes; a hook of the user's own may use the model's settings."""
    constants = constants_of(model)
    if isinstance(constants, str):
        raise CompilationFailed(f"{constants}, which a compiled graph would not follow: register it, or use a number")
    return type(guide), repr(getattr(guide, "config", None)), constants


def _shapes(tree: object) -> tuple[Any, ...]:
    leaves, structure = tree_flatten(tree)
    return tuple((leaf.shape, leaf.stride(), leaf.dtype) for leaf in leaves), str(structure)
