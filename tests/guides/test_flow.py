import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import DiagonalConfig, DiagonalGuide, Guide
from pyro_dynamics.guides.flow import FlowConfig, FlowGuide
from pyro_dynamics.guides.transformed_normal import normal_nodes
from pyro_dynamics.inference import RecursiveBelief, SVIUpdate, SVIUpdateConfig, linear_gaussian_posterior
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

SPLINE, AFFINE = FlowConfig(), FlowConfig(kind="affine")
both_kinds = pytest.mark.parametrize("config", [SPLINE, AFFINE], ids=["spline", "affine"])


def bent_guide(environments: int, latent_dim: int, config: FlowConfig) -> FlowGuide:
    """A guide whose posteriors are far from Gaussian."""
    torch.manual_seed(0)
    guide = FlowGuide(environments, latent_dim, config)
    with torch.no_grad():
        guide.embedding.mul_(20)
        guide.log_scale.zero_()
    return guide


@both_kinds
@pytest.mark.parametrize("d", [1, 2, 3])
def test_embedding_0_makes_the_flow_the_identity(config: FlowConfig, d: int) -> None:
    bent = bent_guide(2, d, config)
    points = 2 * torch.randn(50, 2, d)
    normal = Normal(torch.zeros(2, d), torch.ones(2, d))
    assert (bent.frozen().log_prob(points) - normal.log_prob(points).sum(-1)).abs().max() > 0.1
    fresh = bent.for_environments(2).frozen()
    assert torch.allclose(fresh.log_prob(points), normal.log_prob(points).sum(-1), atol=1e-5)
    assert torch.allclose(fresh.mean, normal.mean, atol=1e-6)
    assert torch.allclose(fresh.stddev, normal.stddev, atol=1e-6)
    torch.manual_seed(3)
    sample = fresh.sample((5,))
    torch.manual_seed(3)
    assert torch.allclose(sample, torch.randn(5, 2, d), atol=1e-5)


@both_kinds
@pytest.mark.parametrize("d", [1, 2])
def test_the_density_is_normalised(config: FlowConfig, d: int) -> None:
    posterior = bent_guide(1, d, config).double().frozen()
    axis = torch.linspace(-12, 12, 400, dtype=torch.float64)
    points = torch.cartesian_prod(*[axis] * d).view(-1, 1, d)
    total = posterior.log_prob(points).exp().sum() * (axis[1] - axis[0]) ** d
    assert total == pytest.approx(1, abs=1e-3)


@both_kinds
def test_moments_are_deterministic_and_those_of_samples(config: FlowConfig) -> None:
    guide = bent_guide(3, 2, config)
    posterior = guide.frozen()
    sample = posterior.sample((50000,))
    state = torch.get_rng_state()
    mean, scale = posterior.mean, posterior.stddev
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(guide.frozen().mean, mean)
    assert torch.equal(guide.frozen().stddev, scale)
    assert ((mean - sample.mean(0)) / scale).abs().max() < 0.02
    assert (scale / sample.std(0) - 1).abs().max() < 0.03
    assert torch.allclose(posterior.expand((4, 3)).mean, mean.expand(4, 3, 2), atol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_nodes_have_the_moments_of_a_standard_normal(d: int) -> None:
    nodes = normal_nodes(512, d)
    assert torch.allclose(nodes.mean(0), torch.zeros(d, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(nodes.mT @ nodes / 512, torch.eye(d, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(nodes.pow(4).mean(0), 3 * torch.ones(d, dtype=torch.float64), atol=0.2)  # the tails end


def banana(e: Tensor) -> Tensor:
    """log N(e_0; 0, 1) + log N(e_1; e_0^2 - 1, 0.3^2)."""
    first, second = e.unbind(-1)
    return Normal(0.0, 1.0).log_prob(first) + Normal(first.square() - 1, 0.3).log_prob(second)


def elbo_on_the_banana(guide: Guide, steps: int = 250) -> float:
    """After a fit; 0 is the best that there is."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(guide.parameters(), lr=2e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        posterior = guide.posterior()
        sample = posterior.rsample((32,))
        (posterior.log_prob(sample) - banana(sample)).mean().backward()
        optimiser.step()
        schedule.step()
    posterior = guide.frozen()
    sample = posterior.sample((4000,))
    return float((banana(sample) - posterior.log_prob(sample)).mean())


def test_a_flow_holds_a_bent_posterior() -> None:
    straight = elbo_on_the_banana(DiagonalGuide(1, 2, DiagonalConfig(1.0)))
    torch.manual_seed(1)
    bent = elbo_on_the_banana(FlowGuide(1, 2, FlowConfig(initial_scale=1.0)))
    assert straight < -0.8
    assert -0.4 < bent < 0.02


def stream(guide: Guide, d: int, config: SVIUpdateConfig, steps: int = 15) -> tuple[Distribution, Tensor, Tensor]:
    """The belief after some transitions, and the exact mean and standard deviation."""
    generator = torch.Generator().manual_seed(0)
    count, noise = guide.environments, 4.0
    likelihood = LinearGaussian(2, d, 3, noise, 1, generator)
    belief = RecursiveBelief(HierarchicalModel(likelihood, count, d), guide, SVIUpdate(config))
    truth = torch.randn(count, d, generator=generator)
    mean, covariance = torch.zeros(count, d), torch.eye(d).repeat(count, 1, 1)
    for _ in range(steps):
        inputs = torch.randn(count, 2, generator=generator)
        design = likelihood.design(inputs)
        targets = (design @ truth[..., None]).squeeze(-1) + noise * torch.randn(count, 3, generator=generator)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, noise)
        belief.update(inputs, targets, torch.arange(count), generator)
    return guide.frozen(), mean, covariance.diagonal(dim1=-2, dim2=-1).sqrt()


@pytest.mark.parametrize(("d", "transforms"), [(1, 1), (2, 2)])
def test_streaming_stays_near_the_exact_posterior(d: int, transforms: int) -> None:
    torch.manual_seed(0)
    guide = FlowGuide(2, d, FlowConfig(transforms=transforms)).for_environments(8)
    posterior, mean, scale = stream(guide, d, SVIUpdateConfig(steps=30, learning_rate=2e-2))
    assert scale.max() < 0.55  # the data are informative: far from the prior
    ratio, error = posterior.stddev / scale, (posterior.mean - mean) / scale
    assert abs(float(ratio.mean()) - 1) < 0.1
    assert (ratio - 1).abs().max() < 0.4
    assert float(error.square().mean().sqrt()) < 0.5


def test_online_only_the_environments_own_parts_move(generator: torch.Generator) -> None:
    guide = bent_guide(2, 2, SPLINE).for_environments(3)
    before = {name: value.clone() for name, value in guide.state_dict().items()}
    model = HierarchicalModel(LinearGaussian(2, 2, 3, 1.0, 1, generator), 3, 2)
    belief = RecursiveBelief(model, guide, SVIUpdate(SVIUpdateConfig(steps=10)))
    belief.update(torch.randn(1, 2, generator=generator), 3 * torch.ones(1, 3), torch.tensor([1]), generator)
    for name, value in guide.state_dict().items():
        moved = value != before[name]
        assert moved.any() == (name in guide.own_tensors()), name
    assert set(guide.own_tensors()) == {"location", "log_scale", "embedding"}
    moved = (guide.location - before["location"]).abs().amax(-1)
    assert moved[1] > 0.02
    assert moved[[0, 2]].max() < 0.002


def test_training_the_networks_leaves_what_is_online_unchanged() -> None:
    guide = bent_guide(2, 2, SPLINE)
    online = guide.for_environments(1)
    online.assign(torch.tensor([0]), guide, torch.tensor([1]))
    points = torch.randn(5, 1, 2)
    before = online.frozen().log_prob(points)
    assert torch.allclose(before[:, 0], guide.frozen().log_prob(points.expand(5, 2, 2))[:, 1], atol=1e-5)
    with torch.no_grad():
        for parameter in guide.layers.parameters():
            parameter.add_(0.5)
    assert torch.equal(online.frozen().log_prob(points), before)


def test_start_follows_torchs_seed() -> None:
    guides = []
    for _ in range(2):
        torch.manual_seed(5)
        guides.append(FlowGuide(4, 2))
    assert torch.equal(guides[0].embedding, guides[1].embedding)
    assert 0.02 < guides[0].embedding.std() < 0.3


def test_torchs_validation_survives_the_import() -> None:
    with pytest.raises(ValueError, match="scale"):
        Normal(0.0, -1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "cubic"}, "spline or affine"),
        ({"transforms": 0}, "transforms must be positive"),
        ({"hidden": ()}, "hidden must be one positive width or more"),
        ({"hidden": (8, 0)}, "hidden must be"),
        ({"bins": 1}, "bins must be at least 2"),
        ({"embedding": 0}, "embedding must be positive"),
        ({"initial_scale": float("nan")}, "initial-scale must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(settings: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        FlowConfig(**settings)
