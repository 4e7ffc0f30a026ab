"""The compiled gradients of Eq. 4 against Pyro's."""

from typing import Any

import pytest
import torch

from pyro_dynamics.guides import (
    AmortizedGuide,
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
from pyro_dynamics.inference import OfflineConfig, OfflineInference
from pyro_dynamics.inference.compiled import fx_graph
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel


@pytest.fixture(autouse=True)
def nothing_was_reported() -> None:
    fx_graph.warn_once.cache_clear()


def train(
    family: Any, latent_dim: int = 2, device: torch.device | None = None, **settings: Any
) -> tuple[float, dict[str, torch.Tensor]]:
    """ELBO and state after two short trainings on data that do not fill the last minibatch."""
    torch.manual_seed(1)
    ensemble = Ensemble(3, latent_dim, 4, EnsembleConfig(members=3, hidden=(8,), weight_decay=(1e-3, 1e-3)))
    ensemble.accelerator = device
    guide = family(4, latent_dim)
    config = OfflineConfig(1e-2, 1e-2, batch_size=16, epochs=3, **settings)
    inference = OfflineInference(HierarchicalModel(ensemble, 4, latent_dim), guide, config)
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(90, 3, generator=generator), torch.randn(90, 4, generator=generator)
    environment = torch.arange(90) % 4
    inference.train(inputs[:40], targets[:40], environment[:40], generator)
    elbo = inference.train(inputs, targets, environment, generator)
    return elbo, {**ensemble.state_dict(), **guide.state_dict()}


def assert_the_same(ours: tuple[float, dict[str, torch.Tensor]], pyro: tuple[float, dict[str, torch.Tensor]]) -> None:
    assert ours[0] == pytest.approx(pyro[0], rel=1e-4)
    # A bias of a flow cancels out where its activation is linear: its gradient is rounding alone, and Adam enlarges it.
    for name in pyro[1].keys() - {"layers.0.network.0.bias"}:
        torch.testing.assert_close(ours[1][name], pyro[1][name], rtol=2e-3, atol=2e-4, msg=name)


def small_flow(environments: int, latent_dim: int) -> FlowGuide:
    return FlowGuide(environments, latent_dim, FlowConfig(transforms=1, hidden=(4,), bins=3, embedding=2))


def auto_flow(environments: int, latent_dim: int) -> AutoGuide:
    return AutoGuide(environments, latent_dim, AutoConfig("AutoIAFNormal"))


@pytest.mark.parametrize(
    "family", [DiagonalGuide, FullRankGuide, LowRankGuide, LaplaceGuide, AutoGuide, MixtureGuide, small_flow, auto_flow]
)
@pytest.mark.filterwarnings("error")  # a fallback would warn, and make the comparison one of Pyro with itself
def test_a_traced_training_equals_pyros(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    assert_the_same(train(family, compiled=True), train(family))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_compiled_training_equals_pyros() -> None:
    assert_the_same(train(DiagonalGuide, compiled=True), train(DiagonalGuide))


@pytest.mark.filterwarnings("error")
def test_a_training_on_a_device_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the device is the processor, where nothing is captured; a GPU's is in tests/test_on_a_gpu.py."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    assert_the_same(train(DiagonalGuide, device=torch.device("cpu"), compiled=True), train(DiagonalGuide))


@pytest.mark.filterwarnings("error")
def test_a_compiled_training_without_a_latent_equals_pyros() -> None:
    assert_the_same(train(DiagonalGuide, latent_dim=0, compiled=True), train(DiagonalGuide, latent_dim=0))


def test_without_a_compiler_pyro_does_it_and_one_line_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(graph: Any, **_: Any) -> Any:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(torch, "compile", no_compiler)
    with pytest.warns(UserWarning, match=r"slow way: no C\+\+ compiler") as warned:
        ours = train(DiagonalGuide, compiled=True)
    assert len(warned) == 1
    assert_the_same(ours, train(DiagonalGuide))


@pytest.mark.filterwarnings("error")
def test_a_guide_that_reads_transitions_takes_pyros_gradients() -> None:
    def amortized(environments: int, latent_dim: int) -> AmortizedGuide:
        return AmortizedGuide(environments, latent_dim, transition_dim=7)

    assert_the_same(train(amortized, compiled=True), train(amortized))


def test_remedies_against_collapse_take_pyros_gradients() -> None:
    assert_the_same(train(DiagonalGuide, compiled=True, free_nats=0.5), train(DiagonalGuide, free_nats=0.5))
