"""All layers of an ensemble in one pass through a processor's matrix unit (Intel AMX), in bfloat16.

Layer by layer, most of the time goes into what is between the matrix products: on one thread the fused pass takes a
fifth of that of torch's own operations. It is written in C (fused.c), compiled once a process in half a second, and
used where the processor has the unit and there is a C compiler.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NEEDED = {"avx512bw", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"}
"""By their names in /proc/cpuinfo."""
BLOCK = 64
"""Rows that go through all layers together: fused.c's own number."""


class FusedEnsemble:
    """The weights of an ensemble, copied into the order in which the matrix unit reads them.

    Args:
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
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        mean: Tensor,
        scale: Tensor,
        lowest: Tensor,
        highest: Tensor,
    ) -> None:
        self._copied = [x.clone() for x in (*weights, *biases, mean, scale, lowest, highest)]
        self.members, self.targets, self.inputs = len(weights[0]), len(lowest), len(mean)
        self.latents, self.hidden = weights[0].shape[1] - self.inputs, len(weights) - 1
        parts = [_in_tiles(part).flatten(1) for part in (*weights[:-1], *weights[-1].chunk(2, dim=2))]
        self.weights = torch.cat(parts, dim=1)
        self.biases = torch.cat([_filled_up(part[:, 0]) for part in (*biases[:-1], *biases[-1].chunk(2, dim=2))], dim=1)
        self.widths = torch.tensor([_filled(n) for n in (*(w.shape[1] for w in weights), self.targets)]).int()
        self.mean = functional.pad(mean, (0, self.latents))
        self.reciprocal = functional.pad(scale.reciprocal(), (0, self.latents), value=1.0)
        self.bounds = torch.stack([highest, highest.exp(), lowest.exp()])

    def is_of(self, tensors: Iterable[Tensor]) -> bool:
        """Whether it was made of tensors with these values: weights, biases, and the others in turn."""
        return all(map(torch.equal, tensors, self._copied))

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale, each ``[M, R, T]`` in float32.

        Args:
            inputs: ``[M, R, n]``, not normalised.
            latent: ``[M, R, d]``.
        """
        rows = inputs.shape[1]
        shapes = (self.members, rows, self.inputs), (self.members, rows, self.latents)
        if (inputs.shape, latent.shape) != shapes:  # C would read what is not there
            raise ValueError(f"inputs and latent must be of {shapes}, not {(inputs.shape, latent.shape)}")
        inputs, latent = inputs.float().contiguous(), latent.float().contiguous()
        location, scale = inputs.new_empty(2, self.members, rows, self.targets)
        tensors = (inputs, latent, location, scale)
        network, pointers = self._network(), [x.data_ptr() for x in tensors]

        def run(begin: int, end: int) -> None:
            if _library().forward(ctypes.byref(network), *pointers, rows, begin, end):
                raise MemoryError("no memory for the activations of a block of rows")

        blocks = self.members * -(-rows // BLOCK)
        threads = min(torch.get_num_threads(), blocks)
        if threads == 1:
            run(0, blocks)
        else:
            bounds = [blocks * i // threads for i in range(threads + 1)]
            list(_pool(threads).map(run, bounds[:-1], bounds[1:]))
        return location, scale

    def _network(self) -> "_Network":
        counts = (self.inputs, self.latents, self.hidden, self.targets)
        arrays = [x.data_ptr() for x in (self.widths, self.weights, self.biases)]
        each = (self.weights.shape[1], self.biases.shape[1])
        return _Network(*counts, *arrays, *each, *(x.data_ptr() for x in (self.mean, self.reciprocal, *self.bounds)))


class _Network(ctypes.Structure):
    """struct ensemble of fused.c."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("inputs", "latents", "hidden", "targets")),
        *((name, ctypes.c_void_p) for name in ("width", "weights", "biases")),
        *((name, ctypes.c_int64) for name in ("weights_each", "biases_each")),
        *((name, ctypes.c_void_p) for name in ("mean", "reciprocal")),
        *((name, ctypes.c_void_p) for name in ("highest", "highest_variance", "lowest_variance")),
    ]


def can_fuse() -> bool:
    """Whether this processor has the matrix unit and the C code compiles; if it does not, one warning tells why."""
    return _has_matrix_unit() and _library() is not None


@cache
def _has_matrix_unit() -> bool:
    if sys.platform != "linux":
        return False
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return set(flags.split()) >= NEEDED


@cache
def _library() -> Any:
    """The compiled code, or None."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    flags = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512bf16", "-mamx-tile", "-mamx-bf16"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fused.so"
        source = Path(__file__).with_name("fused.c")
        try:
            if compiler is None:
                raise OSError("there is no C compiler (cc, gcc or clang)")
            command = [compiler, "-O3", *flags, "-shared", "-fPIC", str(source), "-o", str(file)]
            subprocess.run(command, check=True, capture_output=True, text=True)
            library = ctypes.CDLL(str(file))
        except (OSError, subprocess.CalledProcessError) as fault:
            reason = (getattr(fault, "stderr", None) or str(fault)).splitlines()[0]
            warnings.warn(f"planning takes up to five times as long as it could: {reason}", stacklevel=2)
            return None
    library.forward.argtypes = [*[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 3]
    return None if library.request_tiles() else library


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _filled(width: int) -> int:
    """The next multiple of 32, two tiles."""
    return -(-width // 32) * 32


def _filled_up(x: Tensor) -> Tensor:
    """``[..., n]`` with zeros at the end."""
    return functional.pad(x, (0, _filled(x.shape[-1]) - x.shape[-1]))


def _in_tiles(weight: Tensor) -> Tensor:
    """``[M, in, out]``, filled up with zeros, as ``[M, out / 16, in / 2, 16, 2]`` in bfloat16."""
    weight = _filled_up(_filled_up(weight).mT).mT.bfloat16()
    return weight.unflatten(2, (-1, 16)).unflatten(1, (-1, 2)).permute(0, 3, 1, 4, 2)
