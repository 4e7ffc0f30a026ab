from typing import Any

import pytest
import torch
from pyro import poutine
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides.amortized import AmortizedConfig, AmortizedGuide, newest
from pyro_dynamics.inference import (
    OfflineConfig,
    OfflineInference,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
    linear_gaussian_posterior,
)
from pyro_dynamics.models import HierarchicalModel, LinearGaussian
from pyro_dynamics.transitions import Minibatch

INPUTS, TARGETS = 2, 3


def some_guide(environments: int = 3, window: int = 4) -> AmortizedGuide:
    torch.manual_seed(0)
    return AmortizedGuide(environments, 2, AmortizedConfig(window=window), transition_dim=INPUTS + TARGETS)


def some_rows(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, INPUTS, generator=generator), torch.randn(count, TARGETS, generator=generator)


def test_no_transitions_are_the_prior() -> None:
    guide = some_guide()
    for posterior in (guide.frozen(), guide.for_environments(2).frozen()):
        assert torch.equal(posterior.mean, torch.zeros_like(posterior.mean))
        assert torch.equal(posterior.stddev, torch.ones_like(posterior.mean))


def test_the_order_of_transitions_makes_no_difference() -> None:
    inputs, targets = some_rows(4)
    environment = torch.zeros(4, dtype=torch.long)
    guide, other = some_guide(), some_guide()
    guide.observe(inputs, targets, environment)
    other.observe(inputs.flip(0), targets.flip(0), environment)
    assert torch.allclose(guide.frozen().mean, other.frozen().mean, atol=1e-6)
    assert torch.allclose(guide.frozen().stddev, other.frozen().stddev, atol=1e-6)
    assert (guide.frozen().mean[0] != 0).all()
    assert (guide.frozen().stddev[0] < 1).all()


def test_the_last_rows_are_kept() -> None:
    """One at a time, several at once, or all beforehand: always the same window."""
    inputs, targets = some_rows(21)
    environment = torch.randint(2, (21,), generator=torch.Generator().manual_seed(2))  # nothing of environment 2
    rows = torch.cat([inputs, targets], -1)
    guides = [some_guide() for _ in range(4)]
    for guide, size in zip(guides, (1, 3, 21), strict=False):
        for part in torch.arange(21).split(size):
            guide.observe(inputs[part], targets[part], environment[part])
    guides[3].prepare(inputs, targets, environment)
    for guide in guides:
        assert guide.count.tolist() == [4, 4, 0]
        for k in range(2):
            assert torch.equal(guide.window[k], rows[environment == k][-4:].flip(0))
        assert not guide.window[2].any()


def test_newest_counts_what_there_is() -> None:
    rows = torch.arange(5.0)[:, None]
    window, count = newest(rows, torch.tensor([2, 0, 2, 2, 0]), 3, 2)
    assert window[..., 0].tolist() == [[4, 1], [0, 0], [3, 2]]
    assert count.tolist() == [2, 0, 2]
    window, count = newest(rows[:0], torch.zeros(0, dtype=torch.long), 3, 2)
    assert not window.any()
    assert not count.any()


def test_rows_are_normalised_and_a_constant_stays_itself() -> None:
    guide = some_guide()
    inputs, targets = some_rows(50)
    inputs[:, 0] = 7.0
    targets *= 1000
    guide.prepare(inputs, targets, torch.arange(50) % 3)
    assert guide.row_scale[0] == 1
    assert torch.allclose(guide.row_mean[0], torch.tensor(7.0))
    assert torch.allclose(guide.row_scale[2:], targets.std(0, correction=0))
    assert not guide.frozen().mean.isnan().any()


def test_no_row_is_believed_without_bounds() -> None:
    guide = some_guide()
    guide.observe(1e6 * torch.ones(1, INPUTS), -1e6 * torch.ones(1, TARGETS), torch.tensor([0]))
    assert (guide.frozen().stddev[0] >= (1 / 101) ** 0.5 - 1e-6).all()


def test_members_that_see_the_same_rows_count_as_one() -> None:
    guide = some_guide()
    inputs, targets = some_rows(12)
    environment = torch.arange(12) % 2  # six rows each, of which four are encoded
    sites: list[Any] = []
    for members in (1, 3):
        batch = Minibatch(
            inputs.expand(members, -1, -1), targets.expand(members, -1, -1), environment.expand(members, -1), 60
        )
        if members == 3:  # just those that are encoded of one member's
            batch = Minibatch(batch.inputs[:, -8:], batch.targets[:, -8:], batch.environment[:, -8:], 60)
        sites.append(poutine.trace(guide).get_trace(batch).nodes["e"])
    assert torch.allclose(sites[0]["fn"].mean, sites[1]["fn"].mean, atol=1e-6)
    assert torch.allclose(sites[0]["fn"].stddev, sites[1]["fn"].stddev, atol=1e-6)
    # N / B for each divergence, times 6 / 4 where six rows are explained and four encoded.
    assert torch.allclose(sites[0]["scale"], torch.tensor([7.5, 7.5, 5.0]))
    assert torch.allclose(sites[1]["scale"], torch.tensor([7.5, 7.5, 7.5]))


def test_online_there_is_nothing_left_to_train() -> None:
    guide = some_guide().for_environments(2)
    assert not any(parameter.requires_grad for parameter in guide.parameters())
    assert set(guide.own_tensors()) == {"window", "count"}


def some_data(
    likelihood: LinearGaussian, truth: Tensor, rows: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    environment = torch.arange(len(truth)).repeat(rows)
    inputs = torch.randn(len(environment), INPUTS, generator=generator)
    targets, noise = likelihood(inputs, truth[environment])
    return inputs, targets + noise * torch.randn(targets.shape, generator=generator), environment


@pytest.mark.parametrize("members", [1, 4])
def test_what_was_learned_on_8_environments_transfers_to_new_ones(members: int, generator: torch.Generator) -> None:
    d, noise, count, seen = 2, 2.0, 32, 10
    likelihood = LinearGaussian(INPUTS, d, TARGETS, noise, members, generator)
    torch.manual_seed(0)
    guide = AmortizedGuide(8, d, transition_dim=INPUTS + TARGETS)
    config = OfflineConfig(guide_learning_rate=3e-3, batch_size=64, epochs=40, lr_decay=True)
    data = some_data(likelihood, torch.randn(8, d, generator=generator), 100, generator)
    OfflineInference(HierarchicalModel(likelihood, 8, d), guide, config).train(*data, generator)

    truth = torch.randn(count, d, generator=generator)
    inputs, targets, environment = some_data(likelihood, truth, seen, generator)
    new = guide.for_environments(count)
    belief = RecursiveBelief(HierarchicalModel(likelihood, count, d), new, SVIUpdate(SVIUpdateConfig()))
    for step in torch.arange(seen * count).split(count):
        belief.update(inputs[step], targets[step], environment[step], generator)
    posterior = belief.posterior()

    design = likelihood.design(inputs).unflatten(0, (seen, count)).transpose(0, 1).flatten(1, 2)
    observed = targets.unflatten(0, (seen, count)).transpose(0, 1).flatten(1, 2)
    prior = torch.zeros(count, d), torch.eye(d).repeat(count, 1, 1)
    mean, covariance = linear_gaussian_posterior(*prior, design, observed, noise)
    for i in range(d):
        assert torch.corrcoef(torch.stack([posterior.mean[:, i], mean[:, i]]))[0, 1] > 0.9
    scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    assert 0.8 < float((posterior.stddev / scale).mean()) < 1.2
    assert float(((posterior.mean - mean) / scale).square().mean().sqrt()) < 1
    before = Normal(0.0, 1.0).log_prob(truth).sum(-1).mean()
    assert posterior.log_prob(truth).mean() > before + 1


@pytest.mark.parametrize("present", [[0], [4, 11], [1, 2, 3, 9, 10, 11], list(range(12))])
def test_environments_without_rows_are_at_the_prior_and_are_not_encoded(present: list[int]) -> None:
    """With many environments most have no row in a minibatch: that must change nothing but the time."""
    guide = some_guide(environments=12)
    inputs, targets = some_rows(40)
    environment = torch.tensor(present)[torch.arange(40) % len(present)]
    batch = Minibatch(inputs[None], targets[None], environment[None], total=40.0)
    site: Any = poutine.trace(guide).get_trace(batch).nodes["e"]["fn"]
    window, count = newest(torch.cat([inputs, targets], -1), environment, 12, 4)
    expected = guide.encode(window, count)
    torch.testing.assert_close(site.mean, expected.mean)
    torch.testing.assert_close(site.stddev, expected.stddev)
    absent = [k for k in range(12) if k not in present]
    assert (site.mean[absent] == 0).all()
    assert (site.stddev[absent] == 1).all()
    assert (site.stddev[present] < 1).all()


def test_state_round_trip_keeps_what_was_seen() -> None:
    guide, other = some_guide(), some_guide()
    inputs, targets = some_rows(9)
    guide.prepare(inputs, targets, torch.arange(9) % 3)
    guide.observe(inputs[:2], targets[:2], torch.tensor([0, 1]))
    other.load_state_dict(guide.state_dict())
    assert torch.equal(kl_divergence(other.frozen(), guide.frozen()), torch.zeros(3))
    for one in (guide, other):
        one.observe(inputs[2:3], targets[2:3], torch.tensor([1]))
    assert torch.equal(other.frozen().mean, guide.frozen().mean)


def test_settings_that_make_no_sense_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="window must be positive"):
        AmortizedConfig(window=0)
    with pytest.raises(UserError, match="hidden must be positive widths"):
        AmortizedConfig(hidden=(8, 0))
