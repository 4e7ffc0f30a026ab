"""One contract for every guide family, and what each family promises beside it."""

import io
import math
from collections.abc import Callable
from typing import Any, cast

import pyro
import pytest
import torch
from pyro import distributions
from pyro.infer import TraceMeanField_ELBO, autoguide
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    Laplace,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Normal,
    StudentT,
    kl_divergence,
)

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import (
    GUIDES,
    AutoConfig,
    AutoGuide,
    DiagonalConfig,
    DiagonalGuide,
    FullRankConfig,
    FullRankGuide,
    Guide,
    LaplaceGuide,
    LowRankConfig,
    LowRankGuide,
    MixtureConfig,
    MixtureGuide,
    PointGuide,
)
from pyro_dynamics.guides.auto import KINDS
from pyro_dynamics.guides.mixture import Mixture
from pyro_dynamics.inference import (
    OfflineConfig,
    OfflineInference,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
    linear_gaussian_posterior,
)
from pyro_dynamics.inference.guide_check import check_guide
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian
from pyro_dynamics.transitions import Minibatch

K, D, INPUTS, TARGETS = 3, 2, 2, 3

CASES: dict[str, tuple[type[Guide], object]] = {name: (family, None) for name, family in GUIDES.items()}
CASES |= {kind: (AutoGuide, AutoConfig(kind)) for kind in KINDS if kind != AutoConfig().kind}
CASES |= {"low-rank-2": (LowRankGuide, LowRankConfig(rank=2))}


def cases(leave_out: Callable[[type[Guide]], bool] = lambda family: False, reason: str = "") -> pytest.MarkDecorator:
    """Every case; those that are left out are skipped for a reason."""
    skip = pytest.mark.skip(reason=reason)
    return pytest.mark.parametrize(
        "case", [pytest.param(name, marks=skip if leave_out(family) else ()) for name, (family, _) in CASES.items()]
    )


every_family = cases()
with_density = cases(lambda family: not family.has_density, "a point has no density")
updated_by_gradients = cases(
    lambda family: not family.has_density or family.reads_transitions,
    "a point is not updated online, and an encoder not by gradient steps",
)


def build(case: str, environments: int = K, latent_dim: int = D) -> Guide:
    family, config = CASES[case]
    extra = {"transition_dim": INPUTS + TARGETS} if family.reads_transitions else {}
    return family(environments, latent_dim, config, **extra)  # type: ignore[call-arg]


def some_guide(case: str, latent_dim: int = D) -> Guide:
    """A guide away from its start, in all its parts."""
    torch.manual_seed(0)
    guide = build(case, K, latent_dim)
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    guide.prepare(*some_data())
    weight = torch.rand(K, latent_dim) + 2
    guide.finalize(lambda e: -(weight * e.square()).sum(-1) - e[:, 0] * e[:, -1])
    return guide


def some_data(rows: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(rows, INPUTS, generator=generator)
    return inputs, torch.randn(rows, TARGETS, generator=generator), torch.arange(rows) % K


def some_batch() -> Minibatch:
    inputs, targets, environment = some_data()
    return Minibatch(inputs[None], targets[None], environment[None], len(inputs))


def some_model(latent_dim: int = D) -> HierarchicalModel:
    generator = torch.Generator().manual_seed(6)
    return HierarchicalModel(LinearGaussian(INPUTS, latent_dim, TARGETS, 1.0, 1, generator), K, latent_dim)


def standard_normal(environments: int, latent_dim: int) -> Distribution:
    return Independent(Normal(torch.zeros(environments, latent_dim), torch.ones(environments, latent_dim)), 1)


def negative_elbo(guide: Guide, model: HierarchicalModel, prior: Distribution | None, particles: int = 1) -> Tensor:
    elbo = TraceMeanField_ELBO(particles, max_plate_nesting=2, vectorize_particles=particles > 1)(model, guide)
    with pyro.settings.context(module_local_params=True):
        return elbo(some_batch(), prior)


def same(one: Distribution, other: Distribution, density: bool) -> bool:
    """Whether two posteriors are equal to the last bit."""
    points = torch.randn(5, K, D, generator=torch.Generator().manual_seed(2))
    return torch.equal(one.mean, other.mean) and (
        not density or torch.equal(one.log_prob(points), other.log_prob(points))
    )


@every_family
@pytest.mark.parametrize("latent_dim", [1, 2, 4])
def test_posterior_has_a_batch_of_environments_and_an_event_of_latents(case: str, latent_dim: int) -> None:
    d = max(latent_dim, 2) if case == "low-rank-2" else latent_dim
    guide = some_guide(case, d)
    for posterior in (guide.posterior(), guide.frozen()):
        assert posterior.batch_shape == (K,)
        assert posterior.event_shape == (d,)
        assert posterior.mean.shape == posterior.stddev.shape == (K, d)
        assert posterior.sample().shape == posterior.rsample().shape == (K, d)
        sample = posterior.rsample((7, 5))
        assert sample.shape == (7, 5, K, d)
        assert posterior.log_prob(sample).shape == (7, 5, K)
    with torch.inference_mode():  # as the planner has it
        assert guide.frozen().sample((7,)).shape == (7, K, d)


@every_family
def test_a_generalist_has_latents_of_size_0(case: str, generator: torch.Generator) -> None:
    ensemble = Ensemble(INPUTS, 0, TARGETS, EnsembleConfig(members=2, hidden=(4,), weight_decay=(0.0, 0.0)))
    guide = build(case, K, 0)
    inference = OfflineInference(HierarchicalModel(ensemble, K, 0), guide, OfflineConfig(epochs=1))
    assert math.isfinite(inference.train(*some_data(), generator))
    for posterior in (guide.frozen(), guide.for_environments(2).frozen()):
        assert posterior.sample((5,)).shape == (5, *posterior.batch_shape, 0)
        assert posterior.mean.shape == posterior.stddev.shape == (*posterior.batch_shape, 0)


@every_family
def test_gradients_reach_every_parameter(case: str) -> None:
    guide = some_guide(case)
    negative_elbo(guide, some_model(), None).backward()
    own = guide.own_tensors()
    for name, parameter in guide.named_parameters():
        assert parameter.grad is not None, name
        size = parameter.grad.abs()
        assert size.sum() > 0, name
        assert name not in own or (size.flatten(1).sum(1) > 0).all(), name


@with_density
def test_log_prob_agrees_with_samples(case: str) -> None:
    """Expectations under q by its own samples, and by samples of a wider density with weights from ``log_prob``."""
    posterior = some_guide(case).frozen()
    torch.manual_seed(1)
    samples = posterior.sample((50000,))
    mean, scale = samples.mean(0), samples.std(0)
    wider = Independent(StudentT(5.0, mean, 1.5 * scale), 1)
    points = wider.sample((50000,))
    weight = (posterior.log_prob(points) - wider.log_prob(points)).exp()[..., None]
    assert torch.allclose(weight.mean(0), torch.ones(K, 1), atol=0.05)
    for function in (torch.tanh, torch.abs, lambda z: torch.sin(3 * z), lambda z: torch.tanh(z * z.flip(-1))):
        by_samples = function((samples - mean) / scale).mean(0)
        by_density = (weight * function((points - mean) / scale)).mean(0)
        assert torch.allclose(by_samples, by_density, atol=0.06)
    assert torch.allclose(posterior.mean, mean, atol=0.1)
    assert torch.allclose(posterior.stddev, scale, rtol=0.1)


@every_family
def test_frozen_does_not_follow_training(case: str) -> None:
    guide = some_guide(case)
    has_density = guide.has_density
    frozen, again = guide.frozen(), guide.frozen()
    assert same(frozen, guide.posterior(), has_density)
    assert not frozen.rsample().requires_grad
    assert not frozen.log_prob(torch.zeros(K, D)).requires_grad
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(0.5)
    assert same(frozen, again, has_density)
    assert not torch.allclose(guide.posterior().mean, frozen.mean)
    assert all(parameter.requires_grad for parameter in guide.parameters())


@every_family
def test_a_fresh_guide_stands_at_the_prior(case: str) -> None:
    guide = some_guide(case).for_environments(4)
    assert guide.environments == 4
    assert guide.latent_dim == D
    posterior, prior = guide.frozen(), standard_normal(4, D)
    assert posterior.mean.abs().max() < 0.1
    if not guide.has_density:
        return
    assert (posterior.stddev - 1).abs().max() < 0.1
    try:
        assert kl_divergence(posterior, prior).abs().max() < 1e-4
    except NotImplementedError:
        torch.manual_seed(0)
        sample = posterior.sample((20000,))
        assert (posterior.log_prob(sample) - prior.log_prob(sample)).mean(0).abs().max() < 0.01


@every_family
def test_a_fresh_guide_is_always_the_same(case: str) -> None:
    guide = some_guide(case)
    before = torch.get_rng_state()
    one = guide.for_environments(K).frozen()
    torch.manual_seed(7)
    assert same(one, guide.for_environments(K).frozen(), guide.has_density)
    torch.set_rng_state(before)


@every_family
def test_state_round_trip_gives_the_same_posterior(case: str) -> None:
    guide, other = some_guide(case), build(case)
    file = io.BytesIO()
    torch.save(guide.state_dict(), file)
    file.seek(0)
    assert not same(other.posterior(), guide.posterior(), False)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert same(other.posterior(), guide.posterior(), guide.has_density)
    assert same(other.frozen(), guide.frozen(), guide.has_density)


@every_family
def test_environments_are_independent(case: str) -> None:
    guide = some_guide(case)
    posterior = guide.posterior()
    sample = posterior.rsample()
    (sample[1].square().sum() + (posterior.log_prob(sample)[1] if guide.has_density else 0)).backward()
    for name, parameter in guide.named_parameters():
        first, *rest = name.split(".")
        if first in guide.shared or parameter.grad is None:
            continue
        if first == "members":  # an automatic guide keeps the environments apart as modules, the others as rows
            assert parameter.grad.any() == (rest[0] == "1"), name
        else:
            assert parameter.grad.flatten(1).any(1).tolist() == [False, True, False], name


@every_family
def test_assign_copies_environments(case: str) -> None:
    guide = some_guide(case)
    other = guide.for_environments(K)
    before = other.frozen()
    other.assign(torch.tensor([2, 0]), guide, torch.tensor([1, 2]))
    posterior, source = other.frozen(), guide.frozen()
    torch.testing.assert_close(posterior.mean[[2, 0]], source.mean[[1, 2]])
    torch.testing.assert_close(posterior.stddev[[2, 0]], source.stddev[[1, 2]])
    torch.testing.assert_close(posterior.mean[1], before.mean[1])
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(0.5)
    assert torch.equal(other.frozen().mean, posterior.mean)
    other.assign(torch.tensor([0, 2]), other, torch.tensor([2, 0]))
    torch.testing.assert_close(other.frozen().mean[[0, 2]], posterior.mean[[2, 0]])


def online(guide: Guide) -> Guide:
    """The guide as it is online: what environments share stands still."""
    everyone = torch.arange(K)
    online_guide = guide.for_environments(K)
    online_guide.assign(everyone, guide, everyone)
    return online_guide


@with_density
def test_a_streaming_update_of_one_environment_leaves_the_others_alone(case: str, generator: torch.Generator) -> None:
    guide = online(some_guide(case))
    before = guide.frozen()
    belief = RecursiveBelief(some_model(), guide, SVIUpdate(SVIUpdateConfig()))
    belief.update(torch.randn(1, 2, generator=generator), 5 * torch.ones(1, 3), torch.tensor([1]), generator)
    after = guide.frozen()
    for moved in ((after.mean - before.mean).abs(), (after.stddev - before.stddev).abs()):
        assert moved[[0, 2]].max() < 3e-3 * before.stddev[[0, 2]].max()
    assert ((after.mean - before.mean)[1].abs() / before.stddev[1]).max() > 0.1


@updated_by_gradients
def test_a_streaming_update_lowers_the_objective(case: str, generator: torch.Generator) -> None:
    guide, model = online(some_guide(case)), some_model()
    belief, prior = RecursiveBelief(model, guide, SVIUpdate(SVIUpdateConfig())), guide.frozen()
    torch.manual_seed(0)
    before = negative_elbo(guide, model, prior, particles=256)
    belief.update(*some_data(), generator)
    assert negative_elbo(guide, model, prior, particles=256) < before - 0.5


@every_family
def test_nothing_is_left_to_chance_or_to_global_state(case: str) -> None:
    """The same seeds give the same posterior, and Pyro's global parameter store stays empty."""
    pyro.clear_param_store()  # tests that call a guide by itself leave its parameters there
    ends = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(3)
        guide, model = some_guide(case), some_model()
        OfflineInference(model, guide, OfflineConfig(epochs=2, batch_size=6)).train(*some_data(), generator)
        if guide.has_density:
            online_guide = online(guide)
            update = SVIUpdate(SVIUpdateConfig(steps=3))
            RecursiveBelief(model, online_guide, update).update(*some_data(), generator)
            guide = online_guide
        torch.manual_seed(4)
        ends.append((guide.frozen(), guide.frozen().sample((5,)), generator.get_state()))
    assert same(ends[0][0], ends[1][0], guide.has_density)
    assert all(torch.equal(*pair) for pair in zip(ends[0][1:], ends[1][1:], strict=True))
    assert len(pyro.get_param_store()) == 0


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_both_floating_point_types_work(case: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    guide, model = some_guide(case).to(dtype), some_model().to(dtype)
    inputs, targets, environment = some_data()
    inputs, targets = inputs.to(dtype), targets.to(dtype)
    config = OfflineConfig(epochs=1, batch_size=6)
    OfflineInference(model, guide, config).train(inputs, targets, environment, generator)
    if guide.has_density:
        RecursiveBelief(model, guide, SVIUpdate(SVIUpdateConfig(steps=2))).update(
            inputs, targets, environment, generator
        )
    posterior = guide.frozen()
    sample = posterior.sample((4,))
    for value in (sample, posterior.mean, posterior.stddev, posterior.log_prob(sample)):
        assert value.dtype == dtype
        assert not value.isnan().any()


@every_family
def test_a_guide_of_other_sizes_than_the_model_is_refused(case: str) -> None:
    check_guide(some_model(), build(case))
    with pytest.raises(UserError, match="2 latent dimensions, the model 3"):
        check_guide(some_model(latent_dim=3), build(case))
    with pytest.raises(UserError, match="4 environments, the model 3"):
        check_guide(some_model(), build(case, 4))


# What single families promise.


def trained_posterior(guide: Guide, seed: int = 0) -> tuple[Distribution, Tensor, Tensor]:
    """q(e) after offline inference on a linear-Gaussian model, and the exact mean ``[K, d]`` and covariance."""
    generator = torch.Generator().manual_seed(seed)
    model = some_model()
    rows = 5
    inputs = torch.randn(K, rows, INPUTS, generator=generator)
    design = cast(LinearGaussian, model.likelihood).design(inputs).flatten(1, 2)
    targets = 3 * torch.randn(K, rows * TARGETS, generator=generator)
    mean, covariance = linear_gaussian_posterior(torch.zeros(K, D), torch.eye(D).repeat(K, 1, 1), design, targets, 1.0)
    config = OfflineConfig(guide_learning_rate=2e-2, batch_size=K * rows, epochs=500, lr_decay=True)
    data = inputs.flatten(0, 1), targets.reshape(K * rows, TARGETS), torch.arange(K).repeat_interleave(rows)
    inference = OfflineInference(model, guide, config)
    # 64 samples a step stand for 64 times as many steps.
    inference.elbo = TraceMeanField_ELBO(64, max_plate_nesting=2, vectorize_particles=True)(model, guide)
    inference.train(*data, generator)
    return guide.frozen(), mean, covariance


@pytest.mark.parametrize("case", ["full-rank", "low-rank", "AutoMultivariateNormal"])
def test_correlated_gaussians_find_the_exact_posterior(case: str) -> None:
    posterior, mean, covariance = trained_posterior(build(case))
    scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    unit = scale[..., None] * scale[..., None, :]
    assert (covariance / unit)[:, 0, 1].abs().max() > 0.3  # there is a correlation to find
    assert ((posterior.covariance_matrix - covariance) / unit).abs().max() < 0.05  # type: ignore[attr-defined]
    assert ((posterior.mean - mean) / scale).abs().max() < 0.1


def test_diagonal_finds_the_mean_field_optimum_which_is_too_narrow() -> None:
    posterior, mean, covariance = trained_posterior(DiagonalGuide(K, D))
    optimum = 1 / torch.linalg.inv(covariance).diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(posterior.variance, optimum, rtol=0.05)
    exact = covariance.diagonal(dim1=-2, dim2=-1)
    assert ((posterior.variance / exact).amin(-1) < 0.95).any()
    assert (posterior.variance < 1.02 * exact).all()
    assert ((posterior.mean - mean) / exact.sqrt()).abs().max() < 0.1


def test_laplace_is_exact_where_the_posterior_is_gaussian() -> None:
    posterior, mean, covariance = trained_posterior(LaplaceGuide(K, D))
    assert torch.allclose(posterior.covariance_matrix, covariance, rtol=1e-3, atol=1e-6)  # type: ignore[attr-defined]
    assert torch.allclose(posterior.mean, mean, atol=1e-3)


def test_laplace_survives_a_place_that_is_no_mode() -> None:
    guide = LaplaceGuide(1, 2)
    with torch.no_grad():
        guide.location.add_(1.0)
        guide.finalize(lambda e: 1e6 * e[:, 0].cos() + e[:, 1].square())  # the second direction is a valley
    covariance = guide.posterior().covariance_matrix[0]  # type: ignore[attr-defined]
    assert torch.allclose(covariance.diagonal(), torch.tensor([1e-6 / math.cos(1), 100.0]), rtol=1e-3)


def correlated(environments: int, latent_dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    root = torch.randn(environments, latent_dim, latent_dim, generator=generator)
    covariance = root @ root.mT + 0.3 * torch.eye(latent_dim)
    return torch.randn(environments, latent_dim, generator=generator), covariance


@pytest.mark.parametrize(
    "guide",
    [FullRankGuide(K, 4), LaplaceGuide(K, 4), *(LowRankGuide(K, 4, LowRankConfig(rank)) for rank in (3, 4))],
    ids=["full-rank", "laplace", "low-rank-3", "low-rank-4"],
)
def test_match_takes_over_a_gaussian(guide: Guide) -> None:
    mean, covariance = correlated(K, 4)
    guide.match(mean, covariance)
    posterior = guide.posterior()
    assert torch.equal(posterior.mean, mean)
    assert torch.allclose(posterior.covariance_matrix, covariance, atol=2e-3)  # type: ignore[attr-defined]


def test_match_keeps_what_a_smaller_family_can_hold() -> None:
    mean, covariance = correlated(K, 4)
    exact = MultivariateNormal(mean, covariance)
    diagonal, low_rank = DiagonalGuide(K, 4), LowRankGuide(K, 4, LowRankConfig(2))
    for guide in (diagonal, low_rank):
        guide.match(mean, covariance)
        assert torch.equal(guide.posterior().mean, mean)
    assert (kl_divergence(low_rank.posterior(), exact) < 0.5 * kl_divergence(diagonal.posterior(), exact)).all()
    independent = MultivariateNormal(mean, torch.diag_embed(exact.variance))
    lost = kl_divergence(exact, low_rank.posterior())
    assert (lost < 0.5 * kl_divergence(exact, independent)).all()
    # Nothing of the family is closer in KL(q || N): the gradient is 0.
    kl_divergence(diagonal.posterior(), exact).sum().backward()
    for parameter in diagonal.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() < 1e-4


@pytest.mark.parametrize("low_rank", [False, True])
def test_divergences_agree_with_those_of_full_covariances(low_rank: bool) -> None:
    mean, covariance = correlated(K, 4)
    full = MultivariateNormal(mean, covariance)
    if low_rank:
        factor = torch.randn(K, 4, 2, generator=torch.Generator().manual_seed(2))
        gaussian: Distribution = LowRankMultivariateNormal(mean, factor, full.variance)
        full = MultivariateNormal(mean, factor @ factor.mT + torch.diag_embed(full.variance))
    else:
        gaussian = full
    location, scale = torch.ones(K, 4), torch.linspace(0.5, 2, 4).expand(K, 4)
    diagonal = Independent(Normal(location, scale), 1)
    as_full = MultivariateNormal(location, torch.diag_embed(scale.square()))
    assert torch.allclose(kl_divergence(gaussian, diagonal), kl_divergence(full, as_full), rtol=1e-4)
    assert torch.allclose(kl_divergence(diagonal, gaussian), kl_divergence(as_full, full), rtol=1e-4)
    expanded = kl_divergence(gaussian.expand((5, K)), distributions.Normal(location, scale).to_event(1).expand((5, K)))
    assert torch.allclose(expanded, kl_divergence(full, as_full).expand(5, K), rtol=1e-4)
    other = Independent(Laplace(location, scale), 1)  # is left to sampling
    for pair in ((gaussian, other), (other, gaussian)):
        with pytest.raises(NotImplementedError):
            kl_divergence(*pair)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_gradients_of_a_mixtures_samples_are_those_of_the_expectation(d: int) -> None:
    """Against E[f(z)] = sum_c w_c E_c[f(z)], with one sample of every component."""
    torch.manual_seed(0)
    location, scale, logit = 0.3 * torch.randn(3, d), 0.3 * torch.exp(0.3 * torch.randn(3, d)), 0.5 * torch.randn(3)
    free = [tensor.requires_grad_() for tensor in (location, scale, logit)]

    def function(z: Tensor) -> Tensor:
        return torch.sin(4 * z.cumsum(-1)).sum(-1) + z.square().sum(-1)

    mixture = Mixture(distributions.Categorical(logits=logit), distributions.Normal(location, scale).to_event(1))
    by_samples = torch.autograd.grad(function(mixture.rsample((800000,))).mean(), free)
    components = location + scale * torch.randn(800000, 3, d)
    exact = torch.autograd.grad((logit.softmax(0) * function(components)).sum(-1).mean(), free)
    for one, other in zip(by_samples, exact, strict=True):
        assert torch.allclose(one, other, atol=0.02)


def test_a_mixture_holds_two_hypotheses() -> None:
    """e is known but for its sign, which one Gaussian cannot hold."""
    pyro.set_rng_seed(0)
    guide = MixtureGuide(1, 1, MixtureConfig(components=2)).for_environments(1)
    optimiser = torch.optim.Adam(guide.parameters(), lr=2e-2)
    target = distributions.MixtureSameFamily(
        distributions.Categorical(torch.ones(2)), distributions.Normal(torch.tensor([[-1.0], [1.0]]), 0.3).to_event(1)
    )
    for _ in range(300):
        sample = guide.posterior().rsample((64,))
        optimiser.zero_grad()
        (guide.posterior().log_prob(sample) - target.log_prob(sample)).mean().backward()
        optimiser.step()
    assert torch.allclose(guide.location.flatten().sort().values, torch.tensor([-1.0, 1.0]), atol=0.1)
    assert (guide.logit.softmax(-1) - 0.5).abs().max() < 0.1


def test_a_point_can_be_planned_with_and_not_updated(generator: torch.Generator) -> None:
    guide = PointGuide(K, D)
    posterior = guide.frozen()
    assert torch.equal(posterior.sample((2,)), torch.zeros(2, K, D))
    assert torch.equal(posterior.stddev, torch.zeros(K, D))
    with pytest.raises(UserError, match="no density"):
        RecursiveBelief(some_model(), guide, SVIUpdate(SVIUpdateConfig())).update(*some_data(), generator)


def test_a_point_finds_the_mode() -> None:
    posterior, mean, _ = trained_posterior(PointGuide(K, D))
    assert torch.allclose(posterior.mean, mean, atol=1e-3)


def test_settings_that_make_no_sense_are_refused_in_words() -> None:
    for config in (DiagonalConfig, FullRankConfig, LowRankConfig, MixtureConfig, AutoConfig):
        with pytest.raises(UserError, match="initial-scale"):
            config(initial_scale=-1.0)
    with pytest.raises(UserError, match="rank must be positive"):
        LowRankConfig(rank=0)
    with pytest.raises(UserError, match="components must be positive"):
        MixtureConfig(components=0)
    with pytest.raises(UserError, match=r"rank 3 is above .* choose --guide.rank 2 or less"):
        LowRankGuide(K, 2, LowRankConfig(rank=3))
    assert DiagonalGuide(1, 2, DiagonalConfig(0.5)).posterior().stddev.tolist() == [[0.5, 0.5]]
    assert FullRankGuide(1, 2, FullRankConfig(0.5)).posterior().stddev.tolist() == [[0.5, 0.5]]
    for case in ("mixture", "point"):
        with pytest.raises(UserError, match="cannot take over a Gaussian"):
            build(case).match(torch.zeros(K, D), torch.eye(D).repeat(K, 1, 1))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("AutoDelta", "no density: choose --guide point"),
        ("AutoLaplaceApproximation", "choose --guide laplace"),
        ("AutoNormalizingFlow", "choose AutoIAFNormal"),
        ("AutoStructured", "choose one of AutoDiagonalNormal, AutoNormal"),
        ("AutoGaussian", "choose one of AutoDiagonalNormal, AutoNormal"),
        ("AutoNormall", "Pyro has no automatic guide 'AutoNormall': choose one of AutoDiagonalNormal"),
        (autoguide.AutoNormal, "give 'AutoNormal'"),
        (autoguide.AutoNormal(lambda: None), "would be joint over environments"),
    ],
)
def test_automatic_guides_that_cannot_be_used_are_refused_in_words(kind: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        AutoConfig(kind)


def test_an_automatic_guide_over_the_whole_model_is_refused() -> None:
    joint = autoguide.AutoMultivariateNormal(some_model())
    with pytest.raises(UserError, match="joint over environments"):
        check_guide(some_model(), joint)
    with pytest.raises(UserError, match="joint over environments"):
        AutoGuide(K, D, joint)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(GUIDES))
def test_a_subclass_stays_itself_in_other_environments(name: str) -> None:
    """Otherwise a guide of the user's own that extends one of these would be another one online, without a word."""
    family = GUIDES[name]
    extra = {"transition_dim": 5} if family.reads_transitions else {}
    own: Any = type("Own", (family,), {})
    assert type(own(3, 2, family.Config(), **extra).for_environments(1)) is own
