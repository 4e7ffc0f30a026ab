"""Whether what inference has found can be used at all: what is not finite, or absurd, must not reach a robot."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pyro_dynamics.contracts import Module, VariationalGuide
from pyro_dynamics.errors import first_line
from pyro_dynamics.inference.gaussians import gaussian_tensors, is_gaussian

ABSURD = 1e6
"""No mean and no standard deviation of a latent is as large, in units of its prior N(0, I)."""


class Diverged(Exception):
    """Inference has left what can be computed with."""


def is_finite(module: Module) -> bool:
    """Whether all parameters and buffers are finite."""
    return all(_finite(value) for value in module.state_dict().values())


def is_sound(guide: VariationalGuide) -> bool:
    """Whether a guide's parameters are finite and, where it is a Gaussian, its moments are no absurd numbers."""
    if not is_finite(guide):
        return False
    with torch.no_grad():
        posterior = guide.posterior()
    if not is_gaussian(posterior):
        return True
    if not (posterior.variance > 0).all():  # NaN compares false, here and below
        return False
    return all(bool((part.abs() < ABSURD).all()) for part in gaussian_tensors(posterior))


@contextmanager
def reporting_divergence(when: str) -> Iterator[None]:
    """A matrix that cannot be inverted or factorised, or parameters that no distribution takes, are divergence."""
    try:
        yield
    except torch.linalg.LinAlgError as fault:
        raise Diverged(f"{first_line(fault)} {when}") from fault
    except ValueError as fault:
        # What torch.distributions says of a parameter, and of a value, that is NaN.
        if "to satisfy the constraint" not in str(fault) and "within the support" not in str(fault):
            raise
        raise Diverged(f"a distribution got numbers that are not finite {when}") from fault


def _finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(value.isfinite().all())
