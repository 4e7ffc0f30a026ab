"""The belief about last layers over several environments, and the distributions that it hands out."""

import copy
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.distributions import MixtureSameFamily

from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import ChangepointConfig
from pyro_dynamics.inference.last_layer import LastLayerBelief
from pyro_dynamics.inference.last_layer.contract import LastLayerModel
from pyro_dynamics.models import EnsembleConfig, HierarchicalModel, LastLayerEnsemble

MEMBERS, INPUTS, TARGETS = 2, 3, 2
CHANGES = ChangepointConfig(hazard=0.05, hypotheses=4, spacing=2, patience=4)


def make_belief(environments: int, changes: ChangepointConfig | None = CHANGES) -> LastLayerBelief:
    torch.manual_seed(0)
    config = EnsembleConfig(members=MEMBERS, hidden=(4,), weight_decay=(0.0, 0.0))
    networks = LastLayerEnsemble(INPUTS, TARGETS, config, directions=2)
    networks.prior_mean.copy_(torch.randn(networks.layer_shape))
    root = torch.randn(MEMBERS, 5, 5).double()
    networks.prior_covariance.copy_(root @ root.mT + torch.eye(5))
    networks.noise.fill_(0.3)
    networks.directions.copy_(torch.randn(2, *networks.layer_shape))
    model = cast(LastLayerModel, HierarchicalModel(networks, environments, 0))
    return LastLayerBelief(model, DiagonalGuide(environments, 0), changes)


def rows(count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(count, INPUTS, generator=draws), torch.randn(count, TARGETS, generator=draws)


def feed(belief: LastLayerBelief, inputs: Tensor, targets: Tensor, environment: int) -> None:
    here = torch.tensor([environment])
    for x, y in zip(inputs, targets, strict=True):
        belief.update(x[None], y[None], here, torch.Generator())


def test_environments_are_independent_of_one_another() -> None:
    """Three streams in lockstep give what each gives alone, and one that sees nothing stays, bit for bit."""
    together, streams = make_belief(4), [rows(9, seed) for seed in range(3)]
    for t in range(9):
        inputs, targets = (torch.stack([stream[i][t] for stream in streams]) for i in (0, 1))
        together.update(inputs, targets, torch.arange(3), torch.Generator())
    for k, stream in enumerate(streams):
        alone = make_belief(1)
        feed(alone, *stream, 0)
        torch.testing.assert_close(together.layers.mean[k], alone.layers.mean[0])
        torch.testing.assert_close(together.runs.log_weight[k], alone.runs.log_weight[0])
    assert torch.equal(together.layers.mean[3], make_belief(4).layers.mean[3])
    assert torch.equal(together.layers.covariance[3], make_belief(4).layers.covariance[3])


def test_several_transitions_of_one_environment_come_one_after_the_other() -> None:
    at_once, one_by_one, (inputs, targets) = make_belief(2), make_belief(2), rows(7)
    environment = torch.tensor([1, 0, 1, 1, 0, 1, 1])
    at_once.update(inputs, targets, environment, torch.Generator())
    for k in (0, 1):
        feed(one_by_one, inputs[environment == k], targets[environment == k], k)
    torch.testing.assert_close(at_once.layers.mean, one_by_one.layers.mean)
    assert at_once.runs.steps.tolist() == [2, 5]


def test_a_change_is_followed_and_one_run_alone_does_not_follow_it() -> None:
    """The first half of the stream is noise around layers that differ from those of the second half."""
    following, lasting = make_belief(1), make_belief(1, None)
    networks = following.networks
    truth = [networks.prior_mean + shift for shift in (-2.0, 2.0)]
    inputs, _ = rows(40)
    found = []
    for t, x in enumerate(inputs):
        y = networks.features(x.expand(MEMBERS, 1, -1)).double() @ truth[t >= 20]
        for belief in (following, lasting):
            belief.update(x[None], y.mean(0).float(), torch.tensor([0]), torch.Generator())
        found.append(bool(following.changed[0]))
    assert 20 <= found.index(True) <= 23
    assert found.count(True) == 1
    errors = []
    for belief in (following, lasting):
        _, location, _ = belief.predictive(inputs, torch.zeros(40, dtype=torch.long))
        weight = belief.runs.with_coming().exp()[..., None, None]
        target = torch.stack([networks.features(x.expand(MEMBERS, 1, -1)).double() @ truth[1] for x in inputs])
        errors.append(float(((weight * location).sum(1) - target.mean(1)).square().mean().detach()))
    assert errors[0] < 0.1 * errors[1]


def test_a_snapshot_returns_bit_for_bit_and_so_does_a_reset() -> None:
    belief, (inputs, targets) = make_belief(1), rows(20)
    feed(belief, inputs[:10], targets[:10], 0)
    kept = copy.deepcopy(belief.snapshot())
    feed(belief, inputs[10:], targets[10:], 0)
    after = belief.snapshot()
    belief.restore(kept)
    feed(belief, inputs[10:], targets[10:], 0)
    assert all(torch.equal(value, after[name]) for name, value in belief.snapshot().items())
    belief.reset()
    fresh = make_belief(1).snapshot()
    assert all(torch.equal(value, fresh[name]) for name, value in belief.snapshot().items())


def test_a_transition_that_is_no_number_is_left_out() -> None:
    belief, (inputs, targets) = make_belief(2), rows(2)
    before = belief.snapshot()
    with pytest.warns(UserWarning, match="no usable posterior"):
        belief.update(inputs, targets.index_fill(0, torch.tensor([1]), torch.nan), torch.arange(2), torch.Generator())
    assert torch.equal(belief.layers.mean[1], before["mean"][1])
    assert belief.runs.steps.tolist() == [1, 0]


def test_draws_have_the_mean_the_variance_and_the_reported_numbers_of_the_posterior() -> None:
    belief = make_belief(1)
    feed(belief, *rows(5), 0)
    belief.runs.log_weight[0] = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64).log()
    torch.manual_seed(0)
    posterior = belief.posterior()
    drawn = posterior.sample(torch.Size([40_000]))
    assert drawn.shape == (40_000, 1, MEMBERS * 5 * TARGETS)
    torch.testing.assert_close(drawn.mean(0), posterior.mean, atol=0.03, rtol=0.02)
    torch.testing.assert_close(drawn.var(0), posterior.variance, atol=0.02, rtol=0.05)
    networks, reported = belief.networks, belief.reported()
    assert isinstance(reported, MixtureSameFamily)
    layers = drawn.view(-1, *networks.prior_mean.shape).double() - networks.prior_mean
    of_member = torch.einsum("rmft,nmft->nmr", networks.directions, layers).flatten(0, 1)  # members alike
    torch.testing.assert_close(of_member.mean(0).float(), reported.mean[0], atol=0.05, rtol=0.02)
    torch.testing.assert_close(of_member.var(0).float(), reported.variance[0], atol=0.0, rtol=0.05)
