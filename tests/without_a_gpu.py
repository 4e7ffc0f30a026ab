"""Tensors that say that they are on a GPU and have no values, by torch's fake tensors: for machines that have none.

Torch without CUDA cannot pretend to have CUDA, but it takes new kinds of devices. An operation on tensors of two
devices raises, as on a GPU; and so does every look at a value, which would make the processor wait for the GPU, and
which no CUDA graph can hold.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretended")
PRETENDED = torch.device("pretended:0")


class Generator(torch.Generator):
    """Says that it is the GPU's."""

    device = PRETENDED


@contextmanager
def pretended_gpu() -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        yield


def there(x: Tensor) -> Tensor:
    """A tensor like this one on the GPU; within :func:`pretended_gpu`."""
    return torch.empty(x.shape, dtype=x.dtype, device=PRETENDED)


class There(nn.Module):
    """A module as if its tensors were on the GPU; within :func:`pretended_gpu`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = [module]  # hidden from torch: it is on the processor
        self.tensors = {name: there(value) for name, value in module.state_dict().items()}

    def forward(self, *arguments: Tensor) -> object:
        return functional_call(self.module[0], self.tensors, arguments)
