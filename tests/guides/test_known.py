from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, DiagonalGuide, KnownGuide
from pyro_dynamics.inference import (
    OfflineConfig,
    OfflineInference,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
)
from pyro_dynamics.inference.compiled import fx_graph
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel

CONTEXTS = [-1.0, 0.5, 2.0]


def some_guide() -> KnownGuide:
    guide = KnownGuide(3, 2, lambda contexts: [[context, context**2] for context in contexts])
    guide.set_context(CONTEXTS)
    return guide


def some_model() -> HierarchicalModel:
    torch.manual_seed(1)
    return HierarchicalModel(Ensemble(3, 2, 4, EnsembleConfig(2, (8,), (1e-3, 1e-3))), 3, 2)


def some_data() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    environment = torch.arange(90) % 3
    targets = torch.randn(90, 4, generator=generator) + torch.tensor(CONTEXTS)[environment, None]
    return torch.randn(90, 3, generator=generator), targets, environment


def train(**settings: Any) -> tuple[float, HierarchicalModel, KnownGuide]:
    model, guide = some_model(), some_guide()
    inference = OfflineInference(model, guide, OfflineConfig(1e-2, 1e-2, batch_size=30, epochs=3, **settings))
    return inference.train(*some_data(), torch.Generator().manual_seed(0)), model, guide


def test_it_stands_at_the_given_context_and_has_nothing_to_learn() -> None:
    guide = some_guide()
    expected = torch.tensor([[-1.0, 1.0], [0.5, 0.25], [2.0, 4.0]])
    for posterior in (guide.posterior(), guide.frozen()):
        assert torch.equal(posterior.mean, expected)
        assert torch.equal(posterior.sample((5,)), expected.expand(5, 3, 2))
        assert torch.equal(posterior.stddev, torch.zeros(3, 2))
    assert list(guide.parameters()) == []
    assert not guide.infers
    assert DiagonalGuide(3, 2).infers
    assert not DiagonalGuide(3, 0).infers


def test_what_was_frozen_stays_when_another_context_is_given() -> None:
    guide = some_guide()
    before = guide.frozen()
    guide.set_context([0.0, 0.0, 0.0])
    assert torch.equal(guide.frozen().mean, torch.zeros(3, 2))
    assert float(before.mean[2, 1]) == 4.0


def test_its_state_makes_the_round_trip() -> None:
    other = some_guide().for_environments(3)
    assert torch.equal(other.posterior().mean, torch.zeros(3, 2))
    other.load_state_dict(some_guide().state_dict())
    assert torch.equal(other.posterior().mean, some_guide().posterior().mean)


def test_a_context_that_is_not_known_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="must be given the true context: set it by --context"):
        some_guide().set_context([1.0, None, 2.0])


def test_what_is_reported_is_the_log_likelihood_with_no_divergence() -> None:
    inputs, targets, environment = some_data()
    model, guide = some_model(), some_guide()
    model.likelihood.fit_normaliser(inputs)
    config = OfflineConfig(1e-9, 1e-9, batch_size=90, epochs=1)  # one step, from where the networks are
    elbo = OfflineInference(model, guide, config).train(*some_data(), torch.Generator().manual_seed(0))
    fresh = some_model()
    fresh.likelihood.fit_normaliser(inputs)
    latents = guide.posterior().mean[environment].expand(2, -1, -1)
    with torch.no_grad():
        location, scale = fresh.likelihood(inputs.expand(2, -1, -1), latents)
    expected = torch.distributions.Normal(location, scale).log_prob(targets).sum(-1).mean()
    assert elbo == pytest.approx(float(expected), abs=1e-4)  # log p(e) of these contexts would be -0.3 beside it


def test_training_leaves_it_where_it_is_and_remedies_have_nothing_to_do() -> None:
    elbo, model, guide = train()
    assert torch.equal(guide.posterior().mean, some_guide().posterior().mean)
    for remedy in ({"kl_warm_up": 1.0}, {"free_nats": 3.0}, {"init_mean_std": 2.0}):
        again, other, remedied = train(**remedy)
        assert again == elbo
        assert torch.equal(remedied.posterior().mean, guide.posterior().mean)
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())


@pytest.mark.filterwarnings("error")  # a fallback would warn, and make the comparison one of Pyro with itself
def test_a_traced_training_equals_pyros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    fx_graph.warn_once.cache_clear()
    (elbo, model, _), (traced, other, _) = train(), train(compiled=True)
    assert traced == pytest.approx(elbo, rel=1e-4)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=2e-3, atol=2e-4, msg=name)


def test_an_online_update_changes_nothing_and_draws_nothing() -> None:
    model, guide = some_model(), some_guide()
    belief = RecursiveBelief(model, guide, SVIUpdate(SVIUpdateConfig(steps=3)))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    belief.update(*some_data(), generator)
    assert torch.equal(belief.posterior().mean, some_guide().posterior().mean)
    assert torch.equal(generator.get_state(), before)


def test_no_user_can_choose_it_as_a_guide() -> None:
    assert KnownGuide not in GUIDES.values()
