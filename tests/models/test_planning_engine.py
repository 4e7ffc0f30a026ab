"""ONNX Runtime behind a plan: where it is chosen, that it is checked beside torch, and copies of what it holds."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.models import Ensemble, EnsembleConfig, planning_engine
from pyro_dynamics.models.fused import FusedEnsemble
from pyro_dynamics.models.planning_engine import OnnxEnsemble, planning_form


@pytest.fixture(autouse=True)
def without_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a processor on which none of the C runs, in a process where nothing has failed."""
    monkeypatch.setattr(planning_engine, "can_fuse", lambda dtype: False)
    monkeypatch.setattr(planning_engine, "_faults", [])
    planning_engine._is_installed.cache_clear()
    yield
    planning_engine._is_installed.cache_clear()


@pytest.fixture
def engine() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")


def ensemble(hidden: tuple[int, ...] = (32, 16), latent: int = 2) -> Ensemble:
    net = Ensemble(6, latent, 4, EnsembleConfig(3, hidden, (0.0,) * (len(hidden) + 1)))
    net.fit_normaliser(5 + 3 * torch.randn(200, 6))
    return net


def rows(count: int, latent: int = 2) -> tuple[Tensor, Tensor]:
    return 5 + 3 * torch.randn(3, count, 6), torch.randn(3, count, latent)


@pytest.mark.usefixtures("engine")
def test_the_c_is_preferred_and_only_float32_goes_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planning_form(torch.float32) is OnnxEnsemble
    assert planning_form(torch.bfloat16) is None
    net = ensemble()
    assert isinstance(net.for_planning(), OnnxEnsemble)
    net.planning_dtype = torch.bfloat16
    assert net.for_planning() == net.in_bfloat16
    with pytest.raises(ValueError, match="float32"):
        OnnxEnsemble(torch.bfloat16, [], [], *[torch.zeros(1)] * 4)
    monkeypatch.setattr(planning_engine, "can_fuse", lambda dtype: True)
    assert planning_form(torch.float32) is planning_form(torch.bfloat16) is FusedEnsemble


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra_torch_plans_and_nothing_is_said(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_engine, "find_spec", lambda name: None if name == missing else object())
    net = ensemble()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net.for_planning() is net


@pytest.mark.parametrize("fault", [ImportError("libsome.so: not found"), OSError("no such library")], ids=repr)
def test_an_engine_that_cannot_be_loaded_is_reported_once(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise fault

    monkeypatch.setattr(planning_engine, "find_spec", lambda name: object())
    monkeypatch.setattr(planning_engine, "import_module", broken)
    net = ensemble()
    with pytest.warns(UserWarning, match=f"ONNX Runtime cannot be loaded: {fault}"):
        assert net.for_planning() is net
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net.for_planning() is net


def other_location(location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location + 0.01 * location.abs().max(), scale


def other_scale(location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location, 1.01 * scale


def not_a_number(location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location.index_fill(1, torch.tensor([7]), torch.nan), scale


def members_mixed_up(location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location.flip(0), scale.flip(0)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("wrong", [other_location, other_scale, not_a_number, members_mixed_up])
def test_an_engine_with_other_numbers_is_not_used_again(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = OnnxEnsemble.__call__
    monkeypatch.setattr(OnnxEnsemble, "__call__", lambda self, x, e: wrong(*right(self, x, e)))
    net = ensemble()
    with pytest.warns(UserWarning, match="other numbers than torch"):
        assert net.for_planning() is net
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net.for_planning() is net
    assert "layer by layer" in planning_engine.describe_form(torch.float32)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("size", [1e3, 1e15, 1e30, 3e38, torch.inf, torch.nan])
@pytest.mark.filterwarnings("error")
def test_networks_that_overflow_do_not_speak_against_the_engine(size: float) -> None:
    net = ensemble()
    with torch.no_grad():
        for weight in net.weights:
            weight *= size
    x, e = rows(20)
    exact = [part.isfinite() for part in net(x, e)]
    assert [part.isfinite().all() for part in net.for_planning()(x, e)] == [part.all() for part in exact]
    assert isinstance(ensemble().for_planning(), OnnxEnsemble)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e4])
def test_the_check_accepts_targets_in_any_unit_and_leaves_the_draws_alone(factor: float) -> None:
    net = ensemble()
    with torch.no_grad():
        net.scale_noise(factor * torch.randn(100, 4))
        net.weights[-1][..., :4] *= factor
        net.biases[-1][..., :4] = factor * torch.randn(3, 1, 4)
    state = torch.get_rng_state()
    planned = net.for_planning()
    assert torch.equal(state, torch.get_rng_state())
    assert isinstance(planned, OnnxEnsemble)
    x, e = rows(700)
    for found, exact in zip(planned(x, e), net(x, e), strict=True):
        torch.testing.assert_close(found / factor, exact / factor, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("excess", [-200.0, -40.0, -10.0, 0.0, 30.0, 200.0])
def test_deviations_are_exact_near_and_beyond_their_bounds(excess: float) -> None:
    """Also where the bounds are so far apart that an approximate sigmoid would hide the lower one."""
    net = ensemble(latent=0)
    with torch.no_grad():
        net.min_log_variance.fill_(-40.0)
        net.biases[-1][..., 4:] += excess
    x, e = rows(50, latent=0)
    planned = net.for_planning()
    assert isinstance(planned, OnnxEnsemble)
    torch.testing.assert_close(planned(x, e)[1], net(x, e)[1], rtol=1e-5, atol=1e-12)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_an_ensemble_that_has_planned_can_be_copied(copied: Any) -> None:
    net = ensemble()
    x, e = rows(20)
    before = net.for_planning()(x, e)
    other = copied(net)
    assert other.for_planning() is not net.for_planning()
    assert all(map(torch.equal, other.for_planning()(x, e), before))
