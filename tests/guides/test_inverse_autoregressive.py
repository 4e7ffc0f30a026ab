"""The flows of Pyro's AutoIAFNormal, all environments at once, against Pyro's own, one by one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.guides import AutoConfig, AutoGuide
from pyro_dynamics.guides.inverse_autoregressive import InverseAutoregressive

pytestmark = pytest.mark.filterwarnings("ignore:ConditionalAutoRegressiveNN input_dim = 1")
sizes = pytest.mark.parametrize(("environments", "d"), [(1, 1), (1, 2), (3, 2), (3, 3), (2, 5)])


@pytest.fixture(params=[torch.float32, torch.float64], ids=str, autouse=True)
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """The default type, in which Pyro's inverse makes its tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def bent_guide(environments: int, d: int, size: float = 0.3) -> AutoGuide:
    """A guide whose posteriors are far from Gaussian and unlike each other."""
    torch.manual_seed(d)
    guide = AutoGuide(environments, d, AutoConfig("AutoIAFNormal"))
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return guide


def ours(guide: AutoGuide) -> InverseAutoregressive:
    posterior = guide.posterior()
    assert isinstance(posterior, InverseAutoregressive)
    return posterior


def pyros(guide: AutoGuide) -> list[Any]:
    members: Any = guide.members
    return [member.get_posterior() for member in members]


def pyros_draws(guide: AutoGuide, z: Tensor) -> Tensor:
    pairs = zip(pyros(guide), z.unbind(-2), strict=True)
    return torch.stack([posterior.transforms[0](x) for posterior, x in pairs], -2)


def pyros_log_prob(guide: AutoGuide, value: Tensor) -> Tensor:
    pairs = zip(pyros(guide), value.unbind(-2), strict=True)
    return torch.stack([posterior.log_prob(x.clone()) for posterior, x in pairs], -1)


def assert_close(found: Any, expected: Any) -> None:
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-11}[torch.get_default_dtype()]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def assert_gradients_close(found: Tensor, expected: Tensor, guide: AutoGuide, value: Tensor) -> None:
    """In all parameters and in the value."""
    wanted = [*guide.parameters(), value]
    both = (torch.autograd.grad(one, wanted, allow_unused=True, materialize_grads=True) for one in (found, expected))
    for pair in zip(*both, strict=True):
        assert_close(*pair)


@sizes
def test_draws_and_their_gradients_are_pyros(environments: int, d: int) -> None:
    guide = bent_guide(environments, d)
    z = torch.randn(6, environments, d, requires_grad=True)
    found = ours(guide).from_noise(z)
    expected = pyros_draws(guide, z)
    assert_close(found, expected)
    weight = torch.randn_like(found)
    assert_gradients_close((weight * found).sum(), (weight * expected).sum(), guide, z)


@sizes
def test_densities_and_their_gradients_are_pyros(environments: int, d: int, dtype: torch.dtype) -> None:
    guide = bent_guide(environments, d)
    value = torch.randn(6, environments, d, requires_grad=True)
    found, expected = ours(guide).log_prob(value), pyros_log_prob(guide, value)
    assert found.dtype == dtype
    assert_close(found, expected)
    assert_gradients_close(found.sum(), expected.sum(), guide, value)


def test_steep_flows_keep_pyros_clamp_and_its_gradient() -> None:
    guide = bent_guide(2, 3, size=3.0)
    z = torch.randn(50, 2, 3, requires_grad=True)
    posterior = ours(guide)
    _, log_scale = posterior._location_and_log_scale(z)
    assert log_scale.min() == -5
    assert log_scale.max() == 3
    expected = pyros_draws(guide, z)
    assert_gradients_close(posterior.from_noise(z).sum(), expected.sum(), guide, z)


def test_a_sample_is_made_of_the_noise_that_it_draws() -> None:
    posterior = ours(bent_guide(3, 2))
    torch.manual_seed(0)
    sample = posterior.rsample(torch.Size([4]))
    torch.manual_seed(0)
    assert torch.equal(posterior.from_noise(*posterior.standard_noise(torch.Size([4]))), sample)
    torch.manual_seed(0)
    assert torch.equal(posterior.expand(torch.Size([4, 1, 3])).rsample(), sample[:, None])


def test_far_out_densities_have_finite_slopes() -> None:
    """While the inverse is on its way to a dimension, a number stands there that may be large."""
    value = (1e3 * torch.randn(200, 2, 5)).requires_grad_()
    density = ours(bent_guide(2, 5)).log_prob(value)
    (slope,) = torch.autograd.grad(density.sum(), value)
    assert density.isfinite().all()
    assert slope.isfinite().all()


def test_slopes_of_two_equal_densities_cancel_to_the_last_bit() -> None:
    """Else Adam would make steps of the rounding, in environments of which nothing was seen."""
    guide = bent_guide(2, 3)
    value = torch.randn(50, 2, 3, requires_grad=True)
    (slope,) = torch.autograd.grad((ours(guide).log_prob(value) - guide.frozen().log_prob(value)).sum(), value)
    assert torch.equal(slope, torch.zeros_like(slope))
