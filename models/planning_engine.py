"""Which form of an ensemble plans: our C where the processor has what it needs, else ONNX Runtime if it is here.

ONNX Runtime (the extra ``fast``) plans in float32 where none of the C runs: see ``pyro-dynamics benchmark engines``.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from pyro_dynamics.models.fused import FusedEnsemble, can_fuse

TOLERANCE = 1e-3
"""Of the check beside torch, relative to the largest number: it finds faults, and not the last digits."""

Pass = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Inputs ``[M, R, n]`` and latents ``[M, R, d]`` to location and scale, each ``[M, R, T]``."""

_faults: list[str] = []
"""Why the engine is not used in this process; warned of once."""


def planning_form(dtype: torch.dtype) -> type["FusedEnsemble | OnnxEnsemble"] | None:
    """The form that plans in this precision have on this processor; None where torch goes layer by layer."""
    if can_fuse(dtype):
        return FusedEnsemble
    return OnnxEnsemble if dtype == torch.float32 and not _faults and _is_installed() else None


def describe_form(dtype: torch.dtype) -> str:
    """For people."""
    words = {FusedEnsemble: "all layers in one pass", OnnxEnsemble: "by ONNX Runtime", None: "layer by layer"}
    return words[planning_form(dtype)]


class OnnxEnsemble:
    """The weights of an ensemble in a session of ONNX Runtime, built anew for other weights in some 10 ms.

    The arguments are those of :class:`.FusedEnsemble`.
    """

    block = 500
    """Rows of each member that go through all layers together, so that their activations stay in the cache."""

    @torch.no_grad()
    def __init__(
        self,
        dtype: torch.dtype,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        mean: Tensor,
        scale: Tensor,
        lowest: Tensor,
        highest: Tensor,
    ) -> None:
        if dtype != torch.float32:
            raise ValueError(f"this engine computes in float32 here, and not in {dtype}")
        self._arguments = [x.clone() for x in (*weights, *biases, mean, scale, lowest, highest)]
        self.members, self.targets, self.inputs = len(weights[0]), len(lowest), len(mean)
        self.latents = weights[0].shape[1] - self.inputs
        self.mean, self.scale = mean.clone(), scale.clone()
        self._session = self.session(onnx_model(weights, biases, mean, scale, lowest, highest))

    def session(self, model: bytes) -> Any:
        """What runs this model, by ``run(None, inputs)``."""
        _keep_private()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def is_of(self, dtype: torch.dtype, tensors: Iterable[Tensor]) -> bool:
        """Whether it was made of this type and of tensors with these values, in the order of the arguments."""
        return dtype == torch.float32 and all(map(torch.equal, tensors, self._arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy builds a session of its own: sessions cannot be copied."""
        layers = (len(self._arguments) - 4) // 2
        weights, biases = self._arguments[:layers], self._arguments[layers : 2 * layers]
        return type(self), (torch.float32, weights, biases, *self._arguments[2 * layers :])

    @torch.no_grad()
    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale, each ``[M, R, T]`` in float32.

        Args:
            inputs: ``[M, R, n]``, not normalised.
            latent: ``[M, R, d]``.
        """
        rows = inputs.shape[1]
        shapes = (self.members, rows, self.inputs), (self.members, rows, self.latents)
        if (inputs.shape, latent.shape) != shapes:
            raise ValueError(f"inputs and latent must be of {shapes}, not {(inputs.shape, latent.shape)}")
        x, e = (given.to("cpu", torch.float32).numpy() for given in (inputs, latent))

        def run(begin: int) -> list[Tensor]:
            block = slice(begin, begin + self.block)
            found = self._session.run(None, {"x": x[:, block], "e": e[:, block]})
            return [torch.from_numpy(part).view(self.members, -1, self.targets) for part in found]

        blocks, threads = range(0, rows, self.block), torch.get_num_threads()
        if threads == 1 or len(blocks) == 1:
            parts = list(map(run, blocks))
        else:  # by blocks, which wait for nothing, and not inside of each product
            with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
                parts = list(pool.map(run, blocks))
        location, scale = parts[0] if len(parts) == 1 else (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        return location, scale


@torch.no_grad()
def agrees_with(networks: Pass, engine: OnnxEnsemble) -> bool:
    """Whether the engine gives the networks' numbers on a few rows; if not, a warning, and it is not used again.

    Networks that overflow say nothing about the engine: torch evaluates them, without a word.
    """
    x = torch.linspace(-2, 2, engine.members * 8 * (engine.inputs + engine.latents)).view(engine.members, 8, -1)
    inputs, latent = engine.mean + x[..., : engine.inputs] * engine.scale, x[..., engine.inputs :]
    exact = networks(inputs, latent)
    if not all(bool(part.isfinite().all()) for part in exact):
        return False
    for found, expected in zip(engine(inputs, latent), exact, strict=True):
        if not torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * float(expected.abs().max())):
            _refuse("ONNX Runtime gives other numbers than torch on this processor")
            return False
    return True


def onnx_model(
    weights: Sequence[Tensor], biases: Sequence[Tensor], mean: Tensor, scale: Tensor, lowest: Tensor, highest: Tensor
) -> bytes:
    """The networks as a model in ONNX's format; the arguments are those of :class:`OnnxEnsemble`.

    Its inputs are ``x``, ``[M, R, n]``, and ``e``, ``[M, R, d]``; its outputs location and scale, each ``[M R, T]``.
    Products are apart by members because the engine packs only weights that are matrices.
    """
    from onnx import TensorProto, helper, numpy_helper

    targets, outputs = len(lowest), []
    # The variance within PETS's bounds is 1 / (exp(-v) + exp(-highest)) + exp(lowest); the last layer gives -v.
    sign = torch.cat([torch.ones(targets), -torch.ones(targets)])
    weights, biases = ([*layers[:-1], layers[-1] * sign] for layers in (weights, biases))
    members, width, latents = *weights[0].shape[:2], weights[0].shape[1] - len(mean)
    mean, scale = torch.cat([mean, torch.zeros(latents)]), torch.cat([scale, torch.ones(latents)])
    weights[0] = weights[0] / scale[:, None]
    constants = {"highest": (-highest).exp(), "lowest": lowest.exp(), "mean": mean, "rows": torch.tensor([-1, width])}
    given = [f"given{member}" for member in range(members)]
    nodes = [
        helper.make_node("Concat", ["x", "e"], ["both"], axis=2),
        helper.make_node("Sub", ["both", "mean"], ["centred"]),
        helper.make_node("Reshape", ["centred", "rows"], ["all_given"]),
        helper.make_node("Split", ["all_given"], given, axis=0, num_outputs=members),
    ]
    for member, x in enumerate(given):
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            name = f"{member}_{layer}"
            constants |= {f"weight{name}": weight[member], f"bias{name}": bias[member, 0]}
            nodes.append(helper.make_node("Gemm", [x, f"weight{name}", f"bias{name}"], [x := f"sum{name}"]))
            if layer < len(weights) - 1:  # SiLU, which engines recognise
                nodes.append(helper.make_node("Sigmoid", [x], [f"gate{name}"]))
                nodes.append(helper.make_node("Mul", [x, f"gate{name}"], [x := f"hidden{name}"]))
        outputs.append(x)
    nodes += [
        helper.make_node("Concat", outputs, ["all"], axis=0),
        helper.make_node("Split", ["all"], ["location", "log_precision"], axis=1, num_outputs=2),
        helper.make_node("Exp", ["log_precision"], ["precision"]),
        helper.make_node("Add", ["precision", "highest"], ["bounded"]),
        helper.make_node("Reciprocal", ["bounded"], ["excess"]),
        helper.make_node("Add", ["excess", "lowest"], ["variance"]),
        helper.make_node("Sqrt", ["variance"], ["scale"]),
    ]

    declared = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = helper.make_graph(
        nodes,
        "ensemble",
        [declared("x", shape=[members, "R", width - latents]), declared("e", shape=[members, "R", latents])],
        [declared(name, shape=["all_rows", targets]) for name in ("location", "scale")],
        [numpy_helper.from_array(value.detach().numpy(), name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 18)]  # of 2022, so that any release of the engine reads it
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


@cache
def _is_installed() -> bool:
    """Whether both packages are here and can be loaded; if they only seem to be here, one warning says why."""
    if not all(map(find_spec, ("onnx", "onnxruntime"))):
        return False
    _keep_private()
    try:
        import_module("onnx"), import_module("onnxruntime")
    except (ImportError, OSError) as fault:
        _refuse(f"ONNX Runtime cannot be loaded: {fault}")
    return not _faults


def _keep_private() -> None:
    """Before its import: ONNX Runtime would write an identifier of the device, and send events to its maker."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def _refuse(why: str) -> None:
    _faults.append(why)
    warnings.warn(f"plans take longer than they could: {why}", stacklevel=3)
