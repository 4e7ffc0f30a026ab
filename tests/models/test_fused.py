"""The forms of a plan, our C and ONNX Runtime, beside the networks themselves. What cannot run here is skipped."""

import copy
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_dynamics.models import Ensemble, EnsembleConfig, fused, planning_engine

DTYPES = [torch.float32, torch.bfloat16]
ACCURACY = {torch.float32: 1e-5, torch.bfloat16: 0.02}
"""Beside the networks themselves."""


@pytest.fixture(params=[*DTYPES, "onnx"], ids=["float32", "bfloat16", "onnx"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """The precision of a form that runs here: by our C, or by ONNX Runtime as where none of the C runs."""
    if request.param == "onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        monkeypatch.setattr(planning_engine, "can_fuse", lambda dtype: False)
        assert planning_engine.planning_form(torch.float32) is planning_engine.OnnxEnsemble
        return torch.float32
    if not fused.can_fuse(request.param):
        pytest.skip("this processor cannot, or there is no C compiler")
    return request.param


def ensemble(
    dtype: torch.dtype, inputs: int = 24, latent: int = 1, targets: int = 18, hidden: tuple[int, ...] = (200, 200)
) -> Ensemble:
    """Networks whose biases and statistics are not those of a fresh one."""
    net = Ensemble(inputs, latent, targets, EnsembleConfig(3, hidden, (0.0,) * (len(hidden) + 1)))
    net.planning_dtype = dtype
    for bias in net.biases:
        torch.nn.init.normal_(bias, std=0.3)
    net.fit_normaliser(5 + 3 * torch.randn(200, inputs))
    return net


def assert_close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def rows(net: Ensemble, count: int) -> tuple[Tensor, Tensor]:
    inputs, latents = len(net.input_mean), net.weights[0].shape[1] - len(net.input_mean)
    return 5 + 3 * torch.randn(net.members, count, inputs), torch.randn(net.members, count, latents)


def rounded(net: Ensemble, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
    """The same rounding by torch's own operations: weights and activations rounded, sums in float64."""
    x, dtype = torch.cat([net._normalised(inputs), latent], dim=-1), net.planning_dtype
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        x = x.to(dtype).double() @ weight.to(dtype).double() + bias.double()
        x = torch.nn.functional.silu(x) if i < len(net.config.hidden) else x
    return net._location_and_scale(x.float(), inputs.shape)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 32, 63, 64, 65, 200])
@pytest.mark.parametrize(
    ("inputs", "latent", "targets", "hidden"),
    [(24, 1, 18, (200,) * 4), (4, 0, 3, (7, 5)), (31, 1, 16, (32,)), (33, 3, 33, (64, 10, 40)), (3, 2, 1, (128,) * 3)],
    ids=str,
)
def test_fused_pass_is_the_networks_with_rounded_layers(
    dtype: torch.dtype, inputs: int, latent: int, targets: int, hidden: tuple[int, ...], count: int
) -> None:
    net = ensemble(dtype, inputs, latent, targets, hidden)
    x, e = rows(net, count)
    for found, exact, rounding in zip(net.for_planning()(x, e), net(x, e), rounded(net, x, e), strict=True):
        assert_close(found, rounding, min(2e-3, ACCURACY[dtype]))
        assert_close(found, exact, ACCURACY[dtype])
        assert found.shape == (3, count, targets)
        assert not found.requires_grad


@torch.no_grad()
def test_activation_keeps_its_tails(dtype: torch.dtype) -> None:
    """Through one unit with weight 1, from far left to far right."""
    net = Ensemble(1, 0, 1, EnsembleConfig(1, (1,), (0.0, 0.0)))
    net.planning_dtype = dtype
    net.weights[0].fill_(1.0)
    net.weights[1].copy_(torch.tensor([1.0, 0.0]))
    far = torch.tensor([-3e38, -1e36, -1e30, 1e30])
    x = torch.cat([torch.linspace(-300, 300, 1201), far]).bfloat16().float()[None, :, None]
    form = net.for_planning()
    found, _ = form(x, x[..., :0])
    exact = torch.nn.functional.silu(x.double())
    precision = 3e-7 if dtype == torch.float32 else 2.0**-8
    least = 1e-6 if isinstance(form, planning_engine.OnnxEnsemble) else 1e-30  # its sigmoid is 0 below -18
    assert ((found - exact).abs() <= precision * exact.abs() + least).all()


@torch.no_grad()
def test_deviation_stays_within_its_bounds_far_from_the_data(dtype: torch.dtype) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 50)
    _, scale = net.for_planning()(1e4 * x, e)
    assert scale.max() <= math.exp(0.25) * 1.0001
    assert scale.min() >= math.exp(-5) * 0.9999


def change_in_training(net: Ensemble) -> None:
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)  # of which torch keeps no count
    torch.cat(net(*rows(net, 4))).sum().backward()
    optimiser.step()


def change_by_hand(net: Ensemble) -> None:
    net.biases[-1].data[0] += 1.0


def change_statistics(net: Ensemble) -> None:
    net.fit_normaliser(torch.randn(50, 24))


def change_bounds(net: Ensemble) -> None:
    net.load_state_dict({**net.state_dict(), "max_log_variance": torch.full((18,), -3.0)})


def change_noise(net: Ensemble) -> None:
    net.noise_factor.copy_(torch.linspace(0.1, 4.0, 18))


CHANGES = [change_in_training, change_by_hand, change_statistics, change_bounds, change_noise]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_networks_is_followed(dtype: torch.dtype, change: Any) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 20)
    before = net.for_planning()(x, e)
    assert net.for_planning() is net.for_planning(), "copied once while nothing changes"
    change(net)
    after = net.for_planning()(x, e)
    assert not all(map(torch.equal, before, after))
    for found, exact in zip(after, rounded(net, x, e), strict=True):
        assert_close(found, exact, ACCURACY[dtype])


def test_a_trace_leaves_nothing_behind(dtype: torch.dtype) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 20)
    with pytest.raises(RuntimeError):
        torch.func.jvp(lambda e: net.for_planning()(x, e)[0], (e,), (e,))
    for found, exact in zip(net.for_planning()(x, e), net(x, e), strict=True):
        assert_close(found, exact, ACCURACY[dtype])


class Residual(Ensemble):
    """A user's own networks."""

    def forward(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        location, scale = super().forward(inputs, latent)
        return location + inputs[..., : location.shape[-1]], scale


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_networks_of_a_subclass_are_used_as_they_are(dtype: torch.dtype) -> None:
    net = Residual(24, 1, 18, EnsembleConfig(3, (200,), (0.0, 0.0)))
    net.planning_dtype = dtype
    x, e = rows(net, 600)
    assert all(map(torch.equal, net.for_planning()(x, e), net(x, e)))


def test_a_copy_goes_its_own_way(dtype: torch.dtype) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 20)
    before = net.for_planning()(x, e)
    other = copy.deepcopy(net)
    change_by_hand(other)
    assert not all(map(torch.equal, other.for_planning()(x, e), before))
    assert all(map(torch.equal, net.for_planning()(x, e), before))


def test_other_shapes_are_refused_before_any_memory_is_read(dtype: torch.dtype) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 20)
    with pytest.raises(ValueError, match="must be of"):
        net.for_planning()(x[:, :10], e)
    with pytest.raises(ValueError, match="must be of"):
        net.for_planning()(x[..., :5], e)
    with pytest.raises(NotImplementedError):
        net.for_planning()(x.to("meta"), e.to("meta"))


def test_what_is_not_a_number_stays_in_its_row(dtype: torch.dtype) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 70)
    clean = net.for_planning()(x, e)
    x[1, 3, 5], e[2, 69] = torch.nan, torch.nan
    for found, before in zip(net.for_planning()(x, e), clean, strict=True):
        broken = found.isnan().all(-1)
        assert broken.nonzero().tolist() == [[1, 3], [2, 69]]
        assert torch.equal(found[~broken], before[~broken])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_give_the_same_numbers(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    net = ensemble(dtype)
    x, e = rows(net, 777)  # enough blocks for a second thread
    alone = net.for_planning()(x, e)
    request.getfixturevalue("two_threads")
    for _ in range(20):
        assert all(map(torch.equal, net.for_planning()(x, e), alone))


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a processor that can do everything, with nothing compiled so far."""
    monkeypatch.setattr(fused, "_processor", lambda: set().union(*fused.NEEDED.values()))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    fused._library.cache_clear()
    yield
    fused._library.cache_clear()


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_a_compiler_torch_plans_and_one_line_reports_it(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.warns(UserWarning, match="there is no C compiler"):
        assert not fused.can_fuse(dtype)
    net = ensemble(dtype)
    x, e = rows(net, 600)
    for found, exact in zip(net.for_planning()(x, e), net(x, e), strict=True):
        assert_close(found, exact, 0.05)


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize(
    ("compiler", "words"),
    [("false", "false fails"), ("sh -c 'echo note >&2; echo error: that >&2; exit 1'", "error: that")],
)
def test_a_compiler_that_fails_is_reported(compiler: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    with pytest.warns(UserWarning, match=f"plans take longer than they could: .*{words}"):
        assert not fused.can_fuse(torch.float32)


@pytest.mark.usefixtures("compiled_anew")
def test_without_a_place_for_files_torch_plans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.warns(UserWarning, match="plans take longer than they could"):
        assert not fused.can_fuse(torch.float32)
