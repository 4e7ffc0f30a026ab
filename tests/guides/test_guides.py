"""One contract for every guide family."""

import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, DiagonalConfig, DiagonalGuide, Guide
from pyro_dynamics.inference import ExactBelief, SVIUpdate, SVIUpdateConfig
from pyro_dynamics.models import HierarchicalModel, LinearGaussian

every_family = pytest.mark.parametrize("family", GUIDES.values(), ids=GUIDES)


def some_guide(family: type[Guide]) -> Guide:
    guide = family(3, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return guide


@every_family
def test_posterior_has_a_batch_of_environments_and_an_event_of_latents(family: type[Guide]) -> None:
    posterior = some_guide(family).posterior()
    assert posterior.batch_shape == (3,)
    assert posterior.event_shape == (2,)
    sample = posterior.rsample((7,))
    assert sample.shape == (7, 3, 2)
    assert posterior.log_prob(sample).shape == (7, 3)


@every_family
def test_gradients_reach_every_parameter(family: type[Guide]) -> None:
    guide = some_guide(family)
    sample = guide.posterior().rsample((5,))
    (sample.square().sum() - guide.posterior().log_prob(sample).sum()).backward()
    for name, parameter in guide.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).all(), name


@every_family
def test_log_prob_agrees_with_samples(family: type[Guide]) -> None:
    posterior = some_guide(family).frozen()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        sample = posterior.sample((20000,))
    # The mean of an unnormalised density ratio under q is the ratio of normalisers: 1 for two densities.
    other = Independent(Normal(sample.mean(0), 0.8 * sample.std(0)), 1)
    ratio = (other.log_prob(sample) - posterior.log_prob(sample)).exp().mean(0)
    assert torch.allclose(ratio, torch.ones(3), atol=0.05)


@every_family
def test_frozen_does_not_follow_training(family: type[Guide]) -> None:
    guide = some_guide(family)
    frozen = guide.frozen()
    point = torch.zeros(3, 2)
    before = frozen.log_prob(point)
    assert not before.requires_grad
    assert torch.allclose(before, guide.posterior().log_prob(point))
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(1)
    assert torch.equal(frozen.log_prob(point), before)
    assert not torch.allclose(guide.posterior().log_prob(point), before)


@every_family
def test_a_fresh_guide_stands_at_the_prior(family: type[Guide]) -> None:
    guide = some_guide(family).for_environments(4)
    prior = Independent(Normal(torch.zeros(4, 2), torch.ones(4, 2)), 1)
    assert guide.environments == 4
    assert torch.allclose(kl_divergence(guide.frozen(), prior), torch.zeros(4), atol=1e-6)


@every_family
def test_state_round_trip_gives_the_same_posterior(family: type[Guide]) -> None:
    guide, other = some_guide(family), family(3, 2)
    other.load_state_dict(guide.state_dict())
    points = torch.randn(5, 3, 2)
    assert torch.equal(other.posterior().log_prob(points), guide.posterior().log_prob(points))


@every_family
def test_a_streaming_update_of_one_environment_leaves_the_others_alone(
    family: type[Guide], generator: torch.Generator
) -> None:
    likelihood = LinearGaussian(2, 2, 3, 1.0, 1, generator)
    guide = some_guide(family)
    before = guide.frozen()
    belief = ExactBelief(HierarchicalModel(likelihood, 3, 2), guide, SVIUpdate(SVIUpdateConfig()))
    belief.update(torch.randn(1, 2), 5 * torch.ones(1, 3), torch.tensor([1]), generator)
    moved = (guide.frozen().mean - before.mean).abs().amax(-1)
    assert moved[1] > 0.05
    assert moved[0] < 0.02  # the divergence holds them: what remains is the noise of its sampled gradient, if any
    assert moved[2] < 0.02


def test_settings_that_make_no_sense_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="initial-scale"):
        DiagonalConfig(initial_scale=-1.0)
    assert DiagonalGuide(1, 2, DiagonalConfig(0.5)).posterior().stddev.tolist() == [[0.5, 0.5]]
