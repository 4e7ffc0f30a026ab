"""The GPU's kernel without a GPU: its arithmetic by Triton's interpreter, and that it compiles for one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_dynamics.models import Ensemble, EnsembleConfig

pytest.importorskip("triton")
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def kernels() -> Any:
    """The module, with its kernel run by the interpreter, which the variable decides when it is imported."""
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        from pyro_dynamics.models import fused_triton
    finally:
        os.environ.pop("TRITON_INTERPRET")
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before
    return fused_triton


def ensemble(inputs: int, latent: int, targets: int, hidden: tuple[int, ...]) -> Ensemble:
    """Networks whose biases and statistics are not those of a fresh one."""
    net = Ensemble(inputs, latent, targets, EnsembleConfig(3, hidden, (0.0,) * (len(hidden) + 1)))
    for bias in net.biases:
        torch.nn.init.normal_(bias, std=0.3)
    net.fit_normaliser(5 + 3 * torch.randn(200, inputs))
    return net


@pytest.mark.parametrize("rows", [1, 128, 300])
@pytest.mark.parametrize(
    ("inputs", "latent", "targets", "hidden"),
    [(24, 1, 18, (200, 200)), (4, 0, 3, (7, 5)), (31, 1, 16, (32,)), (33, 3, 33, (64, 10, 40))],
    ids=str,
)
def test_the_kernel_gives_what_the_networks_give(
    kernels: Any, rows: int, inputs: int, latent: int, targets: int, hidden: tuple[int, ...]
) -> None:
    """In float32: Triton's interpreter has no bfloat16."""
    torch.manual_seed(0)
    net = ensemble(inputs, latent, targets, hidden)
    x, e = 5 + 3 * torch.randn(3, rows, inputs), torch.randn(3, rows, latent)
    found = kernels.TritonEnsemble(torch.float32, *net._parts())(x, e)
    with torch.no_grad():
        torch.testing.assert_close(found, net(x, e), rtol=1e-5, atol=1e-5)


def test_a_kernel_that_is_wrong_is_not_used(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    net = ensemble(4, 1, 3, (16, 16))
    assert kernels.checked_kernel(net, torch.float32, *net._parts()) is not None
    right = kernels.TritonEnsemble.__call__

    def wrong(self: Any, *arguments: torch.Tensor) -> Any:
        location, scale = right(self, *arguments)
        return location + 1, scale

    monkeypatch.setattr(kernels.TritonEnsemble, "__call__", wrong)
    with pytest.warns(UserWarning, match="layer by layer on this GPU and take longer: its kernel is off by"):
        assert kernels.checked_kernel(net, torch.float32, *net._parts()) is None
    monkeypatch.setattr(kernels.TritonEnsemble, "__call__", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match="division by zero"):
        assert kernels.checked_kernel(net, torch.float32, *net._parts()) is None


def test_layers_that_do_not_fit_and_inputs_of_other_shapes_are_refused(kernels: Any) -> None:
    wide = ensemble(4, 1, 3, (257,))
    assert kernels.checked_kernel(wide, torch.float32, *wide._parts()) is None
    fused = kernels.TritonEnsemble(torch.float32, *ensemble(4, 1, 3, (16,))._parts())
    with pytest.raises(ValueError, match="must be of"):
        fused(torch.zeros(3, 5, 4), torch.zeros(3, 5, 2))


@pytest.mark.skipif(sys.platform != "linux", reason="Triton's compiler for NVIDIA is for Linux")
def test_it_compiles_for_a_hopper_gpu_and_fits_its_chip() -> None:
    told = subprocess.run([sys.executable, TESTS / "kernel_for_a_gpu.py"], capture_output=True, text=True, check=True)
    for name, used in json.loads(told.stdout).items():
        assert used["shared"] <= 227 * 1024, name  # bytes that a block may have
        assert used["stack"] <= 128, name  # bytes a thread that registers had no room for
        assert used["matrix products"] > 0, name
