"""Functions of tensors that a GPU runs as one CUDA graph: one launch, static memory."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from pyro_dynamics.errors import first_line

WARM_UPS = 3
"""Calls before a function is captured: the first ones compile kernels and make handles, which cannot be captured."""


class Captured:
    """A function of tensors on a device; on a GPU it is captured once, and then replayed.

    Python control flow of the function runs once, and must not depend on values on the device. Tensors that it closes
    over must keep their memory. If it cannot be captured, a warning gives the reason, and every call runs its
    operations one by one.

    Args:
        function: of trees of tensors, giving a tree of tensors.
        device: where it runs; on a CPU it is called as it is.
        generator: on that device, from which the function draws, if it does.
        *arguments: trees of tensors with the shapes of all later ones.
    """

    def __init__(
        self, function: Callable[..., Any], device: torch.device, generator: torch.Generator | None, *arguments: Any
    ) -> None:
        self.device, self._function = device, function
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            self._inputs = tree_map(lambda x: x.to(device, copy=True), arguments)
            try:
                self._warm_up()
                self._capture(generator)
            except RuntimeError as fault:
                slower = f"what runs on the GPU is no CUDA graph and takes longer: {first_line(fault)}"
                warnings.warn(slower, stacklevel=3)

    def _warm_up(self) -> None:
        """Calls on a separate stream; in the last one every synchronisation raises.

        This is tested here because after a failed capture torch may allow no other one in this process.
        """
        stream, mode = torch.cuda.Stream(self.device), torch.cuda.get_sync_debug_mode()
        stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(stream):
                for call in range(WARM_UPS):
                    torch.cuda.set_sync_debug_mode("error" if call == WARM_UPS - 1 else mode)
                    self._function(*self._inputs)
        finally:
            torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.current_stream(self.device).wait_stream(stream)

    def _capture(self, generator: torch.Generator | None) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.device)
        with torch.inference_mode(False):  # a generator's tensors made in it could not be used outside
            for one in (torch.cuda.default_generators[stream.device_index], generator):
                if one is not None:
                    graph.register_generator_state(one)
        try:
            # Calls of other threads do not invalidate this capture.
            with torch.cuda.device(self.device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._outputs = self._function(*self._inputs)
        except BaseException:
            torch.cuda.set_stream(stream)  # torch leaves its own
            if generator is not None:  # torch before 2.13 leaves it in capture state
                generator.graphsafe_set_state(torch.Generator(self.device).graphsafe_get_state())
            raise
        self._graph = graph

    @property
    def is_graph(self) -> bool:
        """Whether it was captured."""
        return self._graph is not None

    def __call__(self, *arguments: Any) -> Any:
        """The function's value, on the CPU; the arguments may be there or on the device."""
        if self._graph is None:
            there = tree_map(lambda x: x.to(self.device), arguments)
            return tree_map(Tensor.cpu, self._function(*there))
        for own, given in zip(tree_leaves(self._inputs), tree_leaves(arguments), strict=True):
            own.copy_(given, non_blocking=True)
        self._graph.replay()
        return tree_map(Tensor.cpu, self._outputs)


def shapes(tree: Any) -> tuple[Any, ...]:
    """What must be the same for a graph to be used again: shapes and types of a tree of tensors, and its structure."""
    leaves, structure = tree_flatten(tree)
    return tuple((leaf.shape, leaf.dtype) for leaf in leaves), str(structure)
