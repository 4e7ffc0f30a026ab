"""Inference that diverges is rolled back, tried again more slowly, and reported; it leaves nothing unusable behind."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.errors import UserError
from pyro_dynamics.guides import GUIDES, DiagonalGuide, FullRankGuide
from pyro_dynamics.inference import (
    BELIEFS,
    KalmanUpdate,
    KalmanUpdateConfig,
    OfflineConfig,
    OfflineInference,
    SVIUpdate,
    SVIUpdateConfig,
)
from pyro_dynamics.inference.compiled import compiled_update
from pyro_dynamics.inference.compiled.fx_graph import warn_once
from pyro_dynamics.inference.divergence import is_finite, is_sound
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel

K, D, ROWS = 2, 2, 40


def model() -> HierarchicalModel:
    torch.manual_seed(0)
    return HierarchicalModel(Ensemble(3, D, 2, EnsembleConfig(2, (16, 16), (0.0, 0.0, 0.0))), K, D)


def data() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    environment = torch.arange(ROWS) % K
    inputs = torch.randn(ROWS, 3, generator=generator)
    return inputs, inputs[:, :2] * (1 + environment[:, None]), environment


def states(inference: OfflineInference) -> list[Tensor]:
    parts = (inference.model.state_dict(), inference.guide.state_dict())
    moments = [value for state in inference.optimiser.state.values() for value in state.values()]
    return [value.clone() for part in parts for value in part.values()] + [value.clone() for value in moments]


def offline(rate: float, guide: str = "diagonal", **more: Any) -> OfflineInference:
    config = OfflineConfig(learning_rate=rate, guide_learning_rate=1e-3, epochs=30, **more)
    return OfflineInference(model(), GUIDES[guide](K, D), config)


@pytest.mark.parametrize("guide", ["diagonal", "full-rank", "laplace"])
def test_a_training_that_diverges_is_tried_again_more_slowly(
    guide: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyro_dynamics.inference.offline.require_rate", lambda *_: None)  # one that is refused
    inference = offline(300.0, guide)
    elbo = inference.train(*data(), torch.Generator().manual_seed(0))
    lines = capsys.readouterr().err.strip().splitlines()
    assert 1 <= len(lines) <= 3
    assert all(line.startswith("warning: training diverged (") for line in lines)
    assert "try 2 of 4 begins where it began, at 0.1 of the rates" in lines[0]
    assert math.isfinite(elbo)
    assert is_finite(inference.model)
    assert is_sound(inference.guide)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_after_the_last_try_all_is_as_it_was(spoilt: float, capsys: pytest.CaptureFixture[str]) -> None:
    inference, (inputs, targets, environment) = offline(1e-3), data()
    inference.train(inputs, targets, environment, torch.Generator().manual_seed(0))
    before, bad = states(inference), targets.clone()
    bad[3, 1] = spoilt
    capsys.readouterr()
    with pytest.raises(UserError, match=r"training diverged 4 times, at last with 0\.001 of its rates") as error:
        inference.train(inputs, bad, environment, torch.Generator().manual_seed(0))
    assert "\n" not in str(error.value)
    assert capsys.readouterr().err.count("warning: training diverged") == 3
    assert all(torch.equal(one, other) for one, other in zip(before, states(inference), strict=True))
    assert math.isfinite(inference.train(inputs, targets, environment, torch.Generator().manual_seed(0)))
    assert inference.optimiser.param_groups[0]["lr"] == 1e-3  # the rates are the configuration's again


def test_a_gradient_that_explodes_in_the_last_step_is_found() -> None:
    inference = offline(1e-3)
    step, count = inference.step, 0

    def last_step_explodes(*arguments: Any) -> float:
        nonlocal count
        elbo, count = step(*arguments), count + 1
        if count == 60:  # 30 epochs of 2 minibatches
            with torch.no_grad():
                next(inference.model.parameters()).fill_(math.inf)
        return elbo

    inference.step = last_step_explodes  # type: ignore[assignment, method-assign]
    inference.train(*data(), torch.Generator().manual_seed(0))
    assert count == 120
    assert is_finite(inference.model)


UPDATES: dict[str, Any] = {
    "svi": lambda: SVIUpdate(SVIUpdateConfig(steps=3, samples=2)),
    "kalman": lambda: KalmanUpdate(KalmanUpdateConfig()),
}


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("kind", BELIEFS)
@pytest.mark.parametrize("guide", [DiagonalGuide, FullRankGuide])
def test_a_bad_transition_leaves_the_last_belief_and_the_others_learn(
    kind: str, update: str, spoilt: float, guide: Any
) -> None:
    belief = BELIEFS[kind](model(), guide(K, D).for_environments(K), UPDATES[update]())
    generator, (inputs, targets, environment) = torch.Generator().manual_seed(0), data()
    for row in range(0, 8, K):
        belief.update(inputs[row : row + K], targets[row : row + K], environment[row : row + K], generator)
    before = belief.posterior().mean.clone()
    bad = targets[8:10].clone()
    bad[1] = spoilt
    warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            belief.update(inputs[8:10], bad, environment[8:10], generator)
    mean, variance = belief.posterior().mean, belief.posterior().variance
    assert (mean.isfinite() & variance.isfinite() & (variance > 0)).all()
    assert (mean.abs() < 1e6).all()
    if spoilt == 1e30:  # finite: such a transition may count, or not, but leads to nothing absurd
        return
    assert len([one for one in warned if str(one.message).startswith("an update of a belief gave no usable")]) == 1
    if kind != "window":  # which fits all that it remembers once more
        assert torch.allclose(mean[1], before[1], atol=2e-3)
    assert not torch.equal(mean[0], before[0])
    belief.update(inputs[10:12], targets[10:12], environment[10:12], generator)  # and all continues
    assert not torch.equal(belief.posterior().mean, mean)


def test_the_compiled_update_is_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_update, "compile_loop", compiled_update.plain_loop)  # what it computes, uncompiled
    rule = SVIUpdate(SVIUpdateConfig(steps=2, samples=2, compiled=True))
    belief = BELIEFS["recursive"](model(), DiagonalGuide(1, D).for_environments(1), rule)
    belief.model = HierarchicalModel(belief.model.likelihood, 1, D)
    inputs, targets, _ = (part[:1] for part in data())
    before = belief.posterior().mean.clone()
    belief.update(inputs, targets * math.nan, torch.tensor([0]), torch.Generator())
    assert torch.equal(belief.posterior().mean, before)
    belief.update(inputs, targets, torch.tensor([0]), torch.Generator())
    assert not torch.equal(belief.posterior().mean, before)
