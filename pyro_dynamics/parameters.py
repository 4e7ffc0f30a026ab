"""Parameters that stand still for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import nn


class Parameterised(Protocol):
    """Anything with parameters: a module, or what a contract says of one."""

    def parameters(self) -> Iterator[nn.Parameter]: ...


@contextmanager
def frozen(module: Parameterised) -> Iterator[None]:
    """Treat the module's parameters as constants: no gradient reaches them, and none is computed for them."""
    free = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in free:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in free:
            parameter.requires_grad_(True)
