"""The end of an offline training: a Gaussian guide at the optimum of its family."""

import pytest
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalGuide, FlowGuide, FullRankGuide, Guide, LaplaceGuide, LowRankGuide
from pyro_dynamics.inference import OfflineConfig, OfflineInference, linear_gaussian_posterior
from pyro_dynamics.inference.log_joint import whole_batch
from pyro_dynamics.inference.natural_update import over_dispersion
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

NOISE, D, COUNTS = 0.8, 2, (5, 40, 300)


def problem() -> tuple[HierarchicalModel, tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
    """A model, transitions of three environments, and the exact means and covariances."""
    generator = torch.Generator().manual_seed(2)
    likelihood = LinearGaussian(2, D, 2, NOISE, 1, generator)
    k = torch.cat([torch.full((n,), i) for i, n in enumerate(COUNTS)])
    inputs, e = torch.randn(len(k), 2, generator=generator), torch.randn(3, D, generator=generator)
    design = likelihood.design(inputs)
    targets = torch.einsum("btd,bd->bt", design, e[k]) + NOISE * torch.randn(len(k), 2, generator=generator)
    exact = [
        linear_gaussian_posterior(
            torch.zeros(D), torch.eye(D), design[k == i].flatten(0, 1), targets[k == i].flatten(), NOISE
        )
        for i in range(3)
    ]
    mean, covariance = (torch.stack(part) for part in zip(*exact, strict=True))
    return HierarchicalModel(likelihood, 3, D), (inputs, targets, k), mean, covariance


def trained(guide: Guide, polish: int) -> tuple[Guide, Tensor]:
    """The guide after a training, and its over-dispersion."""
    model, data, _, _ = problem()
    config = OfflineConfig(guide_learning_rate=5e-3, batch_size=64, min_steps=150, lr_decay=True, polish=polish)
    OfflineInference(model, guide, config).train(*data, torch.Generator().manual_seed(3))
    return guide, over_dispersion(model, guide, whole_batch(*data, 1))


@pytest.mark.parametrize("family", [DiagonalGuide, FullRankGuide, LowRankGuide, LaplaceGuide])
def test_a_gaussian_guide_ends_at_the_best_of_its_family(family: type[Guide]) -> None:
    guide, ratio = trained(family(3, D), polish=4)
    _, _, mean, covariance = problem()
    best = covariance.diagonal(dim1=1, dim2=2).sqrt()
    if family is DiagonalGuide:
        best = torch.linalg.inv(covariance).diagonal(dim1=1, dim2=2).rsqrt()
    assert torch.allclose(guide.frozen().stddev / best, torch.ones(3, D), atol=0.01)
    assert ((guide.frozen().mean - mean) / best).abs().max() < 0.02
    assert torch.allclose(ratio, torch.ones(3, D), atol=0.02)


def test_over_dispersion_is_measured_against_the_best_and_leaves_the_guide_as_it_is() -> None:
    model, data, mean, covariance = problem()
    guide = DiagonalGuide(3, D)
    best = torch.linalg.inv(covariance).diagonal(dim1=1, dim2=2).rsqrt()
    with torch.no_grad():
        guide.location.copy_(mean)
        guide.log_scale.copy_((3 * best).log())
    before = guide.log_scale.clone()
    ratio = over_dispersion(model, guide, whole_batch(*data, 1))
    assert torch.allclose(ratio, torch.full((3, D), 3.0), rtol=0.01)
    assert torch.equal(guide.log_scale, before)


def test_without_it_the_training_is_the_papers_and_its_guide_over_dispersed() -> None:
    _, ratio = trained(DiagonalGuide(3, D), polish=0)
    assert ratio.max() > 1.2


def test_theta_and_other_families_stay_as_they_are() -> None:
    ends = []
    for polish in (0, 4):
        torch.manual_seed(0)
        model, data, _, _ = problem()
        guide = FlowGuide(3, D)
        config = OfflineConfig(epochs=1, polish=polish)
        OfflineInference(model, guide, config).train(*data, torch.Generator().manual_seed(3))
        ends.append(guide.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_refitting_polishes_too() -> None:
    model, data, mean, _ = problem()
    guide = FullRankGuide(3, D)
    OfflineInference(model, guide, OfflineConfig(epochs=1, polish=4)).refit(*data, torch.Generator().manual_seed(3))
    assert torch.allclose(guide.frozen().mean, mean, atol=1e-3)


def test_fewer_than_no_steps_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="polish"):
        OfflineConfig(polish=-1)
