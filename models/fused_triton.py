"""All layers of an ensemble in one kernel of a GPU, for the many rows of a plan: activations never leave the chip.

A program of the GPU takes a block of rows of one member through all layers. The product of one layer stays in
registers, gets bias and activation there, and is an operand of the next; only the weights are read again, from the
second-level cache.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional
from triton.tools.tensor_descriptor import TensorDescriptor

from pyro_dynamics.errors import first_line

ROWS = 128
"""Of a block: two groups of four warps with 64 rows each, the matrix unit's own size."""
WARPS = 8
WIDEST = 256
"""Layers that are wider do not fit a GPU's shared memory (two bytes a weight, 128 KiB)."""

TOLERANCE = 0.05
"""Relative, of bfloat16 beside float32; a kernel that is wrong is off by about 1."""

Networks = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class TritonEnsemble:
    """The weights of an ensemble, filled up with zeros to what the kernel takes: powers of two.

    Args:
        dtype: of weights and activations, bfloat16; sums, and what comes in and goes out, are float32.
        weights: of each layer, ``[M, in, out]``; the last gives T locations and T log-variances.
        biases: of each layer, ``[M, 1, out]``.
        mean: of the inputs, ``[n]``; they are normalised with it.
        scale: of the inputs, ``[n]``.
        lowest: bound of the log-variances, ``[T]``.
        highest: likewise.
    """

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
        self.members, self.targets, self.inputs = len(weights[0]), len(lowest), len(mean)
        self.latents, self.hidden = weights[0].shape[1] - self.inputs, len(weights) - 1
        self.entries, self.outputs = _power_of_two(weights[0].shape[1]), _power_of_two(self.targets)
        self.width = _power_of_two(max(weight.shape[2] for weight in weights[:-1]))
        start, *layers = weights[:-1]
        square = [_filled(weight, self.width, self.width) for weight in layers or [start[:, :0]]]
        ends = [_filled(part, self.width, self.outputs) for part in weights[-1].chunk(2, dim=2)]
        self.weights = [
            _in_blocks([_filled(start, self.entries, self.width)], dtype),
            _in_blocks(square, dtype),
            _in_blocks(ends, dtype),
        ]
        starts = [_filled(bias, 1, self.width) for bias in biases[:-1]]
        ends = [_filled(part, 1, self.outputs) for part in biases[-1].chunk(2, dim=2)]
        self.biases = torch.cat([part.flatten(1) for part in (*starts, *ends)], dim=1)
        self.mean = functional.pad(mean, (0, self.entries - self.inputs))
        self.reciprocal = functional.pad(scale.reciprocal(), (0, self.entries - self.inputs), value=1.0)
        bounds = torch.stack([highest, highest.exp(), lowest.exp()])
        self.bounds = functional.pad(bounds, (0, self.outputs - self.targets))

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale, each ``[M, R, T]`` in float32.

        Args:
            inputs: ``[M, R, n]``, not normalised.
            latent: ``[M, R, d]``.
        """
        rows = inputs.shape[1]
        shapes = (self.members, rows, self.inputs), (self.members, rows, self.latents)
        if (inputs.shape, latent.shape) != shapes:  # the kernel would read what is not there
            raise ValueError(f"inputs and latent must be of {shapes}, not {(inputs.shape, latent.shape)}")
        location, scale = inputs.new_empty(2, self.members, rows, self.targets)
        _forward[(triton.cdiv(rows, ROWS), self.members)](
            *(inputs.contiguous(), latent.contiguous(), location, scale),
            *(*self.weights, self.biases, self.mean, self.reciprocal, self.bounds),
            *(rows, self.biases.shape[1], *self.sizes()),
            num_warps=WARPS,
        )
        return location, scale

    def sizes(self) -> tuple[int, ...]:
        """What is fixed when the kernel is compiled, in the order of its last arguments."""
        return self.inputs, self.latents, self.targets, self.hidden, self.entries, self.width, self.outputs, ROWS


@torch.no_grad()
def checked_kernel(networks: Networks, dtype: torch.dtype, weights: Sequence[Tensor], *parts: Any) -> Networks | None:
    """The weights in the kernel, once it has given what the networks give; None where they do not fit it.

    A kernel that this GPU or its compiler cannot run, or that is wrong there, is a warning, and None.

    Args:
        networks: layer by layer, on the GPU.
        dtype: of weights and activations.
        weights: and all other arguments of :class:`TritonEnsemble`.
    """
    if len(weights) < 2 or max(max(weight.shape[1:]) for weight in weights) > WIDEST:
        return None
    try:
        fused = TritonEnsemble(dtype, weights, *parts)
        draws, device = torch.Generator().manual_seed(0), weights[0].device
        sizes = ((fused.members, ROWS + 1, entries) for entries in (fused.inputs, fused.latents))
        inputs, latent = (torch.randn(size, generator=draws).to(device) for size in sizes)
        inputs = fused.mean[: fused.inputs] + inputs / fused.reciprocal[: fused.inputs]
        found, expected = (torch.cat(form(inputs, latent), dim=2) for form in (fused, networks))
        off = float((found - expected).norm() / expected.norm())
        if off < TOLERANCE:
            return fused
        reason = f"its kernel is off by {off:.2g}"
    except Exception as fault:  # whatever compiler and driver stumble over
        reason = first_line(fault)
    warnings.warn(f"plans go layer by layer on this GPU and take longer: {reason}", stacklevel=4)
    return None


@triton.jit
def _forward(  # type: ignore[no-untyped-def]  # Triton reads annotations in its own way
    inputs,
    latent,
    location,
    scale,
    start,
    layers,
    end,
    biases,
    mean,
    reciprocal,
    bounds,
    rows,
    biases_each,
    INPUTS: tl.constexpr,
    LATENTS: tl.constexpr,
    TARGETS: tl.constexpr,
    HIDDEN: tl.constexpr,
    ENTRIES: tl.constexpr,
    WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """A block of rows of a member through all layers; the sizes in capitals are fixed when it is compiled."""
    member = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = (member.to(tl.int64) * rows + row)[:, None]
    there = (row < rows)[:, None]
    entry, unit, target = tl.arange(0, ENTRIES), tl.arange(0, WIDTH), tl.arange(0, OUTPUTS)
    biases += member * biases_each

    x = tl.load(inputs + at * INPUTS + entry[None], there & (entry < INPUTS)[None], 0.0)
    x = (x - tl.load(mean + entry)[None]) * tl.load(reciprocal + entry)[None]
    if LATENTS > 0:  # behind the inputs
        of_latent = (entry >= INPUTS) & (entry < INPUTS + LATENTS)
        x += tl.load(latent + at * LATENTS + entry[None] - INPUTS, there & of_latent[None], 0.0)

    first = start.load([member * ENTRIES, 0])
    h = _activated(tl.dot(x.to(first.dtype), first), biases + unit).to(first.dtype)
    for layer in tl.static_range(1, HIDDEN):
        weight = layers.load([(member * (HIDDEN - 1) + layer - 1) * WIDTH, 0])
        h = _activated(tl.dot(h, weight), biases + layer * WIDTH + unit).to(first.dtype)
    biases += HIDDEN * WIDTH

    out = at * TARGETS + target[None]
    kept = there & (target < TARGETS)[None]
    tl.store(location + out, tl.dot(h, end.load([2 * member * WIDTH, 0])) + tl.load(biases + target)[None], kept)
    log_variance = tl.dot(h, end.load([(2 * member + 1) * WIDTH, 0])) + tl.load(biases + OUTPUTS + target)[None]
    highest, highest_variance = tl.load(bounds + target)[None], tl.load(bounds + OUTPUTS + target)[None]
    variance = highest_variance * _sigmoid(log_variance - highest) + tl.load(bounds + 2 * OUTPUTS + target)[None]
    tl.store(scale + out, tl.sqrt(variance), kept)


@triton.jit
def _activated(product, bias):  # type: ignore[no-untyped-def]
    """SiLU of a layer's product and its bias."""
    value = product + tl.load(bias)[None]
    return value * _sigmoid(value)


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    """By hand: Triton's own one cannot be interpreted where Triton was imported before that was asked for."""
    return 1 / (1 + tl.exp(-x))


def _power_of_two(size: int) -> int:
    """The next one, and at least 16: the matrix unit's smallest side."""
    return max(16, triton.next_power_of_2(size))


def _in_blocks(layers: Sequence[Tensor], dtype: torch.dtype) -> TensorDescriptor:
    """L layers ``[M, h, w]`` as ``[M L h, w]``, of which the GPU's copy engine brings ``[h, w]`` into shared memory.

    Loads by the threads themselves would need more registers than there are.
    """
    stacked = torch.stack(list(layers), dim=1).to(dtype)
    return TensorDescriptor.from_tensor(stacked.flatten(0, 2), list(stacked.shape[2:]))


def _filled(x: Tensor, height: int, width: int) -> Tensor:
    """``[M, h, w]`` with zeros up to ``[M, height, width]``."""
    return functional.pad(x, (0, width - x.shape[2], 0, height - x.shape[1]))
