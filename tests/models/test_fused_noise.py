"""Targets that the fused forward pass draws: standard normal noise, independent everywhere. Skipped without one."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from scipy import stats
from torch import Tensor

from pyro_dynamics.models import Ensemble, EnsembleConfig, fused

MEMBERS, ROWS, TARGETS = 3, 1001, 18  # the last block of a member is not full


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def net(request: pytest.FixtureRequest) -> Ensemble:
    """A small network for each member, with other locations and scales in every row."""
    if not fused.can_fuse(request.param):
        pytest.skip("this processor cannot, or there is no C compiler")
    net = Ensemble(4, 1, TARGETS, EnsembleConfig(MEMBERS, (32,), (0.0, 0.0)))
    net.planning_dtype = request.param
    return net


def arguments(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    return torch.randn(MEMBERS, rows, 4), torch.randn(MEMBERS, rows, 1)


def sample(net: Ensemble, inputs: Tensor, latent: Tensor, generator: torch.Generator) -> Tensor:
    forward = net.for_planning()
    assert isinstance(forward, fused.FusedEnsemble)
    return forward.sample_targets(inputs, latent, generator)


def draws(net: Ensemble, calls: int, generator: torch.Generator) -> Tensor:
    """The noise of so many calls, ``[calls, M, R, T]`` in float64: targets with location and scale taken off."""
    x, e = arguments()
    location, scale = net.for_planning()(x, e)
    targets = [sample(net, x, e, generator) for _ in range(calls)]
    return (torch.stack(targets) - location).double() / scale


def test_noise_is_standard_normal_up_to_its_tails(net: Ensemble, generator: torch.Generator) -> None:
    noise = draws(net, 60, generator).flatten()
    count = len(noise)
    for power, (moment, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs(float((noise**power).mean()) - moment) < 4.5 * math.sqrt(variance / count)
    assert stats.kstest(noise.numpy(), "norm").pvalue > 1e-4
    for beyond in (3.0, 3.5, 4.0, 4.5):
        for tail in (noise > beyond, noise < -beyond):
            expected = count * stats.norm.sf(beyond)
            assert abs(int(tail.sum()) - expected) < 4.5 * math.sqrt(expected) + 1


@pytest.mark.parametrize("moment", [lambda z: z, lambda z: z.square() - 1, torch.sign], ids=["z", "z2", "sign"])
@pytest.mark.parametrize("dim", [0, 1, 2, 3], ids=["calls", "members", "rows", "targets"])
def test_noise_of_neighbours_is_independent(
    net: Ensemble, generator: torch.Generator, moment: Callable[[Tensor], Tensor], dim: int
) -> None:
    noise = draws(net, 20, generator)
    x = moment(noise) / moment(noise).std()
    for distance in range(1, min(x.shape[dim], 70)):
        products = x.narrow(dim, 0, x.shape[dim] - distance) * x.narrow(dim, distance, x.shape[dim] - distance)
        assert abs(float(products.mean())) < 5 / math.sqrt(products.numel())


def test_no_draw_comes_twice(net: Ensemble, generator: torch.Generator) -> None:
    noise = draws(net, 20, generator).flatten(0, 2)
    assert len(noise.round(decimals=3).unique(dim=0)) == len(noise)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_the_generator_determines_them_whatever_the_number_of_threads(
    net: Ensemble, generator: torch.Generator
) -> None:
    x, e = arguments()
    found = []
    for count in (1, 1, 2, 3):
        torch.set_num_threads(count)
        generator.manual_seed(5)
        twice = [sample(net, x, e, generator) for _ in range(2)]
        assert not torch.equal(*twice)
        found.append(torch.stack(twice))
    assert all(torch.equal(other, found[0]) for other in found)
    assert not torch.equal(sample(net, x, e, generator.manual_seed(6)), found[0][0])


def test_rows_few_and_many_are_all_drawn(net: Ensemble, generator: torch.Generator) -> None:
    for rows in (1, 2, 47, 48, 49, 64, 65, 200):
        x, e = arguments(rows)
        targets = sample(net, x, e, generator)
        location, scale = net.for_planning()(x, e)
        assert targets.shape == (MEMBERS, rows, TARGETS)
        assert 0 < ((targets - location) / scale).abs().min() <= ((targets - location) / scale).abs().max() < 7


def test_what_is_not_a_number_stays_in_its_row(net: Ensemble, generator: torch.Generator) -> None:
    x, e = arguments(70)
    clean = sample(net, x, e, generator.manual_seed(1))
    x[1, 3, 2], e[2, 69] = torch.nan, torch.inf
    targets = sample(net, x, e, generator.manual_seed(1))
    broken = (~targets.isfinite()).any(-1)
    assert broken.nonzero().tolist() == [[1, 3], [2, 69]]
    assert torch.equal(targets[~broken], clean[~broken])


def test_other_shapes_are_refused_before_any_memory_is_read(net: Ensemble, generator: torch.Generator) -> None:
    x, e = arguments()
    with pytest.raises(ValueError, match="must be of"):
        sample(net, x[:, :10], e, generator)
