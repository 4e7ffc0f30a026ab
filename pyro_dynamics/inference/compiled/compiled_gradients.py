"""Gradients of Eq. 4 in one compiled graph, by ``torch.compile``: the same as Pyro's to float32 accuracy."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value
from torch.utils._pytree import tree_map

from pyro_dynamics.contracts import DynamicsModel, VariationalGuide
from pyro_dynamics.cuda_graphs import Captured
from pyro_dynamics.errors import first_line
from pyro_dynamics.inference.compiled.fx_graph import CompilationFailed, for_this_processor, quiet, traced, warn_once
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
from pyro_dynamics.transitions import Minibatch

Gradients = Callable[..., tuple[tuple[Tensors, Tensors], tuple[Tensor, Tensor]]]
"""Of the guide's and the model's parameters, draws, data and 1 / N: the gradients in both, what they are of, and
that without the penalty."""


class CompiledGradients:
    """Puts the gradients of negative ELBO / N + penalty into ``.grad``, in place of a backward pass by Pyro.

    All minibatches are filled up to one size, so that there is one graph. It is compiled at the first call, which
    takes some ten seconds, and less where torch finds it in its cache on disk. Where the likelihood has an accelerator,
    they are computed there, as one CUDA graph; weights, moments and Adam stay on the processor.

    Args:
        model: over K environments; with a ``forward`` or ``prior`` of its own it is left to Pyro.
        guide: its guide, which reads no transitions; its posterior must be a Gaussian, or say how its draws are made of
            noise (see :mod:`pyro_dynamics.inference.compiled.reparameterisation`).
        batch_size: rows B of each member in a minibatch.
    """

    def __init__(self, model: DynamicsModel, guide: VariationalGuide, batch_size: int) -> None:
        self.model, self.guide, self.batch_size = model, guide, batch_size
        self._gradients: Gradients | None = None
        self._constants: tuple[Any, ...] | str = ()
        self._site: Site = "posterior"
        self._possible = True

    def __call__(self, batch: Minibatch) -> Tensor | None:
        """The loss, negative ELBO / N, a scalar in nats; its draws come from torch's global generator.

        None where it cannot be compiled: then nothing was changed or drawn, and one warning per process has said why.
        """
        if not self._possible:
            return None
        state = torch.get_rng_state()
        try:
            return self._backward(batch)
        except CompilationFailed as fault:
            torch.set_rng_state(state)
            self._possible = False
            warn_once(f"training cannot be compiled and goes the slow way: {fault}")
            return None

    def _backward(self, batch: Minibatch) -> Tensor:
        if own := own_program(self.model):
            raise CompilationFailed(own)
        constants = constants_of(self.model)
        if isinstance(constants, str):
            raise CompilationFailed(f"{constants}, which a compiled graph would not follow")
        if constants != self._constants:
            self._gradients, self._constants = None, constants
        phi, data = gather(self.model, self.guide, self.model.prior(), batch, self.batch_size)
        theta: Tensors = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        data = data._replace(theta={name: value for name, value in data.theta.items() if name not in theta})
        tensors = ({name: value.detach() for name, value in part.items()} for part in (phi, theta))
        if self._gradients is None:
            self._site = self._find_site(batch)
        noise = tuple(part[0] for part in noise_of(self.guide.posterior(), self._site, samples=1, steps=1))
        arguments = (*tensors, noise, data, torch.tensor(1 / batch.total))
        gradients, (_, loss) = self._run(arguments)
        for parameters, found in zip((phi, theta), gradients, strict=True):
            for name, parameter in parameters.items():
                # The fused Adam takes a gradient's memory as it lies, whatever its strides.
                parameter.grad = found[name].contiguous()
        return loss

    def _find_site(self, batch: Minibatch) -> Site:
        site = site_of(self.guide, self.model.prior(), batch)
        if site is None:
            raise CompilationFailed(not_compilable(self.guide))
        return site

    @torch.no_grad()
    def _run(self, arguments: tuple[Any, ...]) -> tuple[tuple[Tensors, Tensors], tuple[Tensor, Tensor]]:
        try:
            if self._gradients is not None:
                return self._gradients(*arguments)
            network = View(self.model)
            loss = negative_elbo(self.model, View(self.guide), self.model.prior(), self._site)

            def of_each(
                phi: Tensors, theta: Tensors, noise: tuple[Tensor, ...], data: Data, share: Tensor
            ) -> tuple[Tensor, Tensor]:
                of_one = share * loss(phi, theta, noise, data)
                weights = {f"module.{name}": value for name, value in theta.items()}
                return of_one + functional_call(network, weights, (lambda model: model.likelihood.penalty(),)), of_one

            device = getattr(self.model.likelihood, "accelerator", None)
            there = arguments if device is None else tree_map(lambda x: x.to(device), arguments)
            graph = traced(grad_and_value(of_each, argnums=(0, 1), has_aux=True), *there)
            options = {"size_asserts": False, **for_this_processor()}
            compiled = torch.compile(graph, fullgraph=True, dynamic=False, options=options)
            gradients: Gradients = compiled if device is None else Captured(compiled, device, None, *there)
            self._gradients = gradients
            with quiet():  # at the first call it compiles
                return gradients(*arguments)
        except Exception as fault:  # whatever the compiler stumbles over
            raise CompilationFailed(first_line(fault)) from fault
