"""The prior that is learned from the trained environments, and predicted noise that is made right."""

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, MultivariateNormal, Normal

from pyro_dynamics.guides import DiagonalGuide, FlowGuide, FullRankGuide, Guide, LowRankGuide
from pyro_dynamics.inference.learned_prior import WIDER, learn_population, spread_of
from pyro_dynamics.inference.noise_calibration import calibrate_noise
from pyro_dynamics.inference.user_model import begin_at_prior, over_environments, population
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel

K, D = 40, 2
SMALL = EnsembleConfig(3, (8,), (1e-5, 1e-5))


def trained_guide(kind: type[Guide]) -> tuple[Guide, Tensor, Tensor]:
    """A guide whose posteriors are where latents drawn from a known Gaussian are."""
    generator = torch.Generator().manual_seed(0)
    mean, factor = torch.tensor([0.5, -1.0]), torch.tensor([[0.4, 0.0], [0.3, 0.2]])
    latents = mean + torch.randn(K, D, generator=generator) @ factor.mT
    guide = kind(K, D)
    guide.match(latents, 0.01**2 * torch.eye(D).expand(K, -1, -1))
    return guide, mean, factor @ factor.mT


@pytest.mark.parametrize("kind", [FullRankGuide, LowRankGuide, DiagonalGuide])
def test_new_environments_begin_where_the_trained_ones_are(kind: type[Guide]) -> None:
    guide, mean, covariance = trained_guide(kind)
    model = HierarchicalModel(Ensemble(3, D, 2, SMALL), K, D)
    learn_population(model, guide)
    assert model.has_population
    assert torch.equal(model.prior().mean, torch.zeros(K, D)), "training keeps N(0, I)"
    new, fresh = over_environments(model, 3), guide.for_environments(3)
    begin_at_prior(new, fresh)
    begins = fresh.frozen()
    wanted = covariance if kind is not DiagonalGuide else torch.diag(covariance.diagonal())
    assert torch.allclose(begins.mean, mean.expand(3, -1), atol=0.2)
    spread = moments_of(begins) / WIDER**2
    assert torch.allclose(spread, wanted.expand(3, -1, -1), atol=0.06)
    assert torch.allclose(moments_of(population(new)), moments_of(begins), rtol=1e-2)


def moments_of(distribution: torch.distributions.Distribution) -> Tensor:
    if isinstance(distribution, Independent):
        return torch.diag_embed(distribution.variance)
    covariance: Tensor = distribution.covariance_matrix  # type: ignore[attr-defined]
    return covariance


def test_latents_on_a_line_leave_room_beside_it() -> None:
    means = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    mean, covariance = spread_of(means, torch.zeros(2, D, D))
    assert torch.equal(mean, torch.zeros(D))
    assert covariance[1, 1] == pytest.approx(WIDER**2 * 0.25)  # the mean variance, 1, over K^2
    assert covariance[0, 0] == pytest.approx(WIDER**2 * 2.25)


def test_a_flow_begins_at_the_standard_prior() -> None:
    model, guide = HierarchicalModel(Ensemble(3, D, 2, SMALL), 4, D), FlowGuide(4, D)
    learn_population(model, guide)
    assert not model.has_population
    begin_at_prior(over_environments(model, 2), guide.for_environments(2))


def test_a_learned_prior_is_stored_and_older_models_have_none() -> None:
    guide, *_ = trained_guide(FullRankGuide)
    model = HierarchicalModel(Ensemble(3, D, 2, SMALL), K, D)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learn_population(model, guide)
    other = HierarchicalModel(Ensemble(3, D, 2, SMALL), K, D)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.population_mean, model.population_mean)
    older = {name: value for name, value in before.items() if "population" not in name and "factor" not in name}
    other = HierarchicalModel(Ensemble(3, D, 2, SMALL), K, D)
    other.load_state_dict(older)
    assert not other.has_population
    model.set_population(None)
    assert not model.has_population


class Wrong(nn.Module):
    """Members that are right about the mean, and whose sd is too large or too small by a known factor."""

    members = 2
    noise_factor: Tensor

    def __init__(self, wrong_by: Tensor) -> None:
        super().__init__()
        self.register_buffer("noise_factor", torch.ones(len(wrong_by)))
        self.wrong_by = wrong_by

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        location = (inputs + latent).sum(-1, keepdim=True).expand(*inputs.shape[:-1], len(self.wrong_by))
        return location, self.noise_factor * self.wrong_by * torch.ones_like(location)

    def fit_normaliser(self, inputs: Tensor) -> None: ...

    def penalty(self) -> Tensor:
        return torch.zeros(())

    def weight_decays(self) -> dict[nn.Parameter, float]:
        return {}


def test_the_noise_of_new_episodes_is_found(generator: torch.Generator) -> None:
    wrong_by = torch.tensor([5.0, 1.0, 0.4])
    likelihood = Wrong(wrong_by)
    model = HierarchicalModel(likelihood, 3, 1)
    latent = torch.randn(3, 1, generator=generator)
    environment = torch.arange(3000) % 3
    inputs = torch.randn(3000, 1, generator=generator)
    targets = (inputs + latent[environment]) + torch.randn(3000, 3, generator=generator)
    posterior = Independent(Normal(latent, 1e-3), 1)
    assert calibrate_noise(model, posterior, inputs, targets, environment, generator)
    assert torch.allclose(likelihood.noise_factor * wrong_by, torch.ones(3), atol=0.05)
    again = likelihood.noise_factor.clone()
    calibrate_noise(model, posterior, inputs, targets, environment, generator)
    assert torch.allclose(likelihood.noise_factor, again, rtol=0.01), "it does not build on the last factor"


def test_what_is_seldom_and_far_off_counts(generator: torch.Generator) -> None:
    """Of steps that stand still nine in ten: the errors of the tenth are not left out, as a quantile would."""
    likelihood = Wrong(torch.ones(1))
    targets = 0.1 * torch.randn(5000, 1, generator=generator)
    targets[::10] *= 30.0
    posterior = MultivariateNormal(torch.zeros(1, 1), 1e-8 * torch.eye(1).expand(1, -1, -1))
    model = HierarchicalModel(likelihood, 1, 1)
    calibrate_noise(model, posterior, torch.zeros(5000, 1), targets, torch.zeros(5000).long(), generator)
    assert float(likelihood.noise_factor) == pytest.approx(float(targets.square().mean().sqrt()), rel=1e-3)


def test_noise_begins_in_units_of_the_targets() -> None:
    net, scaled = (Ensemble(3, D, 2, SMALL) for _ in range(2))
    scaled.load_state_dict(net.state_dict())
    targets = torch.randn(4000, 2) * torch.tensor([0.01, 5.0])
    scaled.scale_noise(targets)
    inputs, latent = torch.randn(3, 7, 3), torch.randn(3, 7, D)
    (location, scale), (same, other) = net(inputs, latent), scaled(inputs, latent)
    assert torch.equal(location, same)
    assert torch.allclose(other, scale * targets.std(0, correction=0), rtol=1e-4)


def test_a_training_begins_with_the_networks_own_noise() -> None:
    net = Ensemble(3, D, 2, SMALL)
    net.noise_factor.fill_(0.3)
    net.fit_normaliser(torch.randn(20, 3))
    assert torch.equal(net.noise_factor, torch.ones(2))
