"""The compiled update against the steps on Pyro's ELBO, and against the Kalman filter.

Most tests run the same traced steps without compiling them, which takes seconds a shape.
"""

import shutil
import warnings
from typing import Any
from unittest.mock import Mock

import pyro
import pytest
import torch

from pyro_dynamics.guides import (
    AutoConfig,
    AutoGuide,
    DiagonalGuide,
    FlowConfig,
    FlowGuide,
    FullRankGuide,
    LaplaceGuide,
    LowRankGuide,
    MixtureGuide,
)
from pyro_dynamics.inference import (
    BELIEFS,
    RecursiveBelief,
    SVIUpdate,
    SVIUpdateConfig,
    linear_gaussian_posterior,
)
from pyro_dynamics.inference.compiled import compiled_update, fx_graph, traced_elbo
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel, LinearGaussian


def small_flow(environments: int, latent_dim: int, kind: Any = "spline") -> FlowGuide:
    return FlowGuide(environments, latent_dim, FlowConfig(kind, transforms=1, hidden=(4,), bins=3, embedding=2))


def affine_flow(environments: int, latent_dim: int) -> FlowGuide:
    return small_flow(environments, latent_dim, "affine")


def auto_flow(environments: int, latent_dim: int) -> AutoGuide:
    return AutoGuide(environments, latent_dim, AutoConfig("AutoIAFNormal"))


FAMILIES = [DiagonalGuide, FullRankGuide, LowRankGuide, LaplaceGuide, AutoGuide, MixtureGuide]


@pytest.fixture(autouse=True)
def fresh_process() -> None:
    """No warning was given and nothing was compiled before."""
    fx_graph.warn_once.cache_clear()
    compiled_update._compiled.clear()


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_update, "compile_loop", compiled_update.plain_loop)


def ensemble() -> Ensemble:
    torch.manual_seed(1)
    return Ensemble(3, 2, 4, EnsembleConfig(members=3, hidden=(8,), weight_decay=(0.0, 0.0)))


def linear() -> LinearGaussian:
    return LinearGaussian(3, 2, 4, 1.5, 2, torch.Generator().manual_seed(1))


def state_after(
    likelihood: Any,
    family: Any,
    environments: int,
    compiled: bool,
    belief: str = "recursive",
    updates: int = 2,
    samples: int = 16,
    steps: int = 20,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """What some updates by rows of some environments made of the guide, and the next draw of the generator."""
    torch.manual_seed(2)  # a flow's first weights
    guide = family(2, 2).for_environments(environments).eval()
    rule = SVIUpdate(SVIUpdateConfig(steps, 1e-2, samples, compiled))
    held = BELIEFS[belief](HierarchicalModel(likelihood, environments, 2), guide, rule, temperature=0.7)
    stream, generator = torch.Generator().manual_seed(3), torch.Generator().manual_seed(4)
    rows = torch.arange(environments)[::2]
    for _ in range(updates):
        inputs, targets = torch.randn(len(rows), 3, generator=stream), torch.randn(len(rows), 4, generator=stream)
        held.update(inputs, targets, rows, generator)
    return what_is_identified(guide), torch.rand(1, generator=generator)


@torch.no_grad()
def what_is_identified(guide: Any) -> dict[str, torch.Tensor]:
    """The guide's state; of a low-rank Gaussian its moments, since factors of other signs and sizes give the same."""
    if not isinstance(guide, LowRankGuide):
        return guide.state_dict()
    posterior: Any = guide.posterior()
    return {"mean": posterior.mean, "covariance": posterior.covariance_matrix}


def assert_close(found: Any, expected: Any, tolerance: float = 2e-5) -> None:
    for name, value in expected[0].items():
        assert torch.allclose(found[0][name], value, atol=tolerance), name
    assert torch.equal(found[1], expected[1])  # both have drawn as much


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("likelihood", [ensemble, linear])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("uncompiled")
def test_the_same_as_pyros_steps(family: Any, likelihood: Any, environments: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = state_after(likelihood(), family, environments, compiled=True)
    expected = state_after(likelihood(), family, environments, compiled=False)
    if family is LowRankGuide:
        # Where nothing was seen, its divergence has a gradient of rounding errors alone, of which Adam makes steps of
        # 1e-2 all the same; a covariance holds their squares.
        assert_close(found, expected, tolerance=2e-3)
        found, expected = (
            ({name: value[::2] for name, value in state.items()}, draw) for state, draw in (found, expected)
        )
    # A mixture's gradient is divided by its densities.
    assert_close(found, expected, tolerance=2e-4 if family is MixtureGuide else 2e-5)


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("family", [DiagonalGuide, FullRankGuide, MixtureGuide])
@pytest.mark.usefixtures("uncompiled")
def test_the_same_as_pyros_steps_for_every_belief(family: Any, belief: str) -> None:
    found, expected = (
        state_after(ensemble(), family, 2, compiled, belief, updates=6, steps=8) for compiled in (True, False)
    )
    assert_close(found, expected, tolerance=1e-4)


@pytest.mark.parametrize(
    ("family", "belief"),
    [(small_flow, "power"), (affine_flow, "recursive"), (auto_flow, "power"), (auto_flow, "recursive")],
)
@pytest.mark.usefixtures("uncompiled")
def test_flows_take_the_same_steps_as_pyros(family: Any, belief: str) -> None:
    """The prior of the second update is a flow too, with networks as the guide had them before."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fallback would warn, and make the comparison one of Pyro with itself
        found = state_after(ensemble(), family, 2, True, belief, samples=4, steps=10)
    assert_close(found, state_after(ensemble(), family, 2, False, belief, samples=4, steps=10))


@pytest.mark.parametrize("family", [DiagonalGuide, LaplaceGuide, MixtureGuide])
@pytest.mark.usefixtures("uncompiled")
def test_few_draws_take_the_likelihoods_slopes_by_forward_mode(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = state_after(ensemble(), family, 2, compiled=False, samples=1)
    linearised = Mock(wraps=traced_elbo._by_linearisation)
    monkeypatch.setattr(traced_elbo, "_by_linearisation", linearised)
    assert_close(state_after(ensemble(), family, 2, compiled=True, samples=1), expected)
    linearised.assert_called()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_and_with_weights_that_change() -> None:
    """The one test that compiles: the same graph serves after the network was trained on, and leaves it alone."""
    results: dict[bool, list[Any]] = {True: [], False: []}
    for compiled, found in results.items():
        likelihood = ensemble()
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                found.append(state_after(likelihood, FullRankGuide, 3, compiled))
            assert all(p.requires_grad and p.grad is None for p in likelihood.parameters())
            with torch.no_grad():
                likelihood.weights[0].mul_(1.5)
        assert not compiled or len(compiled_update._compiled[likelihood]) == 1
    for found, expected in zip(results[True], results[False], strict=True):
        assert_close(found, expected)
    assert not torch.equal(results[True][0][0]["location"], results[True][1][0]["location"])


@pytest.mark.usefixtures("uncompiled")
def test_follows_the_exact_kalman_posterior(generator: torch.Generator) -> None:
    environments, noise = 32, 4.0
    likelihood = LinearGaussian(2, 1, 3, noise, 5, generator)
    guide = DiagonalGuide(environments, 1).for_environments(environments)
    rule = SVIUpdate(SVIUpdateConfig(learning_rate=1e-2, compiled=True))
    belief = RecursiveBelief(HierarchicalModel(likelihood, environments, 1), guide, rule)
    truth = torch.randn(environments, 1, generator=generator)
    mean, covariance = torch.zeros(environments, 1), torch.ones(environments, 1, 1)
    for _ in range(25):
        inputs = torch.randn(environments, 2, generator=generator)
        design = likelihood.design(inputs)
        targets = (design @ truth[..., None]).squeeze(-1) + noise * torch.randn(environments, 3, generator=generator)
        mean, covariance = linear_gaussian_posterior(mean, covariance, design, targets, noise)
        belief.update(inputs, targets, torch.arange(environments), generator)
    exact_scale = covariance[..., 0].sqrt()
    assert abs(float((guide.frozen().stddev / exact_scale).mean()) - 1) < 0.07
    assert abs(float(((guide.frozen().mean - mean) / exact_scale).mean())) < 0.1


def test_without_a_compiler_pyro_does_it_and_one_line_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(*_: Any) -> Any:
        raise RuntimeError("No working C++ compiler found\nand a long tale")

    monkeypatch.setattr(compiled_update, "compile_loop", no_compiler)
    with pytest.warns(UserWarning, match="No working C") as warned:
        found, again = (state_after(ensemble(), DiagonalGuide, 2, compiled=True) for _ in range(2))
    assert len(warned) == 1
    assert "\n" not in str(warned[0].message)
    expected = state_after(ensemble(), DiagonalGuide, 2, compiled=False)
    for result in (found, again):
        assert all(torch.equal(result[0][name], value) for name, value in expected[0].items())
        assert torch.equal(result[1], expected[1])


class Bent(DiagonalGuide):
    """Its Pyro site is no Gaussian, whatever its posterior says."""

    def forward(self, batch: Any, prior: Any = None) -> torch.Tensor:
        with pyro.plate("environment", self.environments, dim=-1):
            return pyro.sample("e", pyro.distributions.Laplace(self.location, self.log_scale.exp()).to_event(1))

    def for_environments(self, environments: int) -> "Bent":
        return Bent(environments, self.latent_dim)


@pytest.mark.usefixtures("uncompiled")
def test_other_guides_take_pyros_steps() -> None:
    with pytest.warns(UserWarning, match=r"Bent is no Gaussian.*not compiled") as warned:
        found = state_after(linear(), Bent, 2, compiled=True)
    assert len(warned) == 1
    expected = state_after(linear(), Bent, 2, compiled=False)
    assert all(torch.equal(found[0][name], value) for name, value in expected[0].items())


@pytest.mark.usefixtures("uncompiled")
def test_frozen_parameters_stand_still_and_no_gradient_is_left() -> None:
    guide = DiagonalGuide(2, 2)
    guide.log_scale.requires_grad_(False)
    before = guide.log_scale.clone()
    belief = RecursiveBelief(HierarchicalModel(ensemble(), 2, 2), guide, SVIUpdate(SVIUpdateConfig(compiled=True)))
    belief.update(torch.ones(2, 3), torch.ones(2, 4), torch.arange(2), torch.Generator().manual_seed(0))
    assert torch.equal(guide.log_scale, before)
    assert guide.location.abs().max() > 0
    assert guide.location.grad is None


@pytest.mark.slow
@pytest.mark.usefixtures("uncompiled")
def test_rows_are_filled_up_so_that_few_shapes_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ensemble()
    state_after(likelihood, DiagonalGuide, 2, True, "window", updates=9)
    assert len(compiled_update._compiled[likelihood]) == 5  # 1, 2, 4, 8 and 16 rows
    monkeypatch.setattr(compiled_update, "LIMIT", 1)
    with pytest.warns(UserWarning, match="more than 1 shapes") as warned:
        state_after(ensemble(), DiagonalGuide, 2, True, "window", updates=9)
    assert len(warned) == 1


@pytest.mark.parametrize("family", [DiagonalGuide, FullRankGuide, MixtureGuide, affine_flow, auto_flow])
def test_the_steps_of_a_device_are_the_same(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the device is the processor, where nothing is captured; a GPU's are in tests/test_on_a_gpu.py."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    there = ensemble()
    there.accelerator = torch.device("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = state_after(there, family, 3, compiled=True, samples=4, steps=20)
    assert_close(found, state_after(ensemble(), family, 3, compiled=False, samples=4, steps=20))
    assert any(compiled_update._compiled[there].values())
