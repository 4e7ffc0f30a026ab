"""All layers of an ensemble in one pass of the processor, for the many rows of a plan.

Layer by layer, much of the time goes into what is between the matrix products. The pass is written in C (fused.c),
compiled in half a second at the first plan of a process, and used where the processor and a C compiler allow it: in
float32 with AVX-512, and in bfloat16 with the matrix unit of newer ones (AMX), where it takes a fifth of the time of
torch's own operations.
"""

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NEEDED = {
    torch.float32: {"avx512f"},
    torch.bfloat16: {"avx512f", "avx512bw", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"},
}
"""What the processor must have, by the names in /proc/cpuinfo; a compiler writes them without the last underscore."""
BLOCKS_WORTH_A_THREAD = 10
"""Of rows: fewer are done before another thread has started."""


class FusedEnsemble:
    """The weights of an ensemble, copied into the order in which the pass reads them.

    Args:
        dtype: of weights and activations, float32 or bfloat16; sums, and what comes in and goes out, are float32.
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
        self.dtype = dtype
        self._copied = [x.clone() for x in (*weights, *biases, mean, scale, lowest, highest)]
        self.members, self.targets, self.inputs = len(weights[0]), len(lowest), len(mean)
        self.latents, self.hidden = weights[0].shape[1] - self.inputs, len(weights) - 1
        in_order = {torch.float32: _in_columns, torch.bfloat16: _in_tiles}[dtype]
        parts = [in_order(part).flatten(1) for part in (*weights[:-1], *weights[-1].chunk(2, dim=2))]
        self.weights = torch.cat(parts, dim=1)
        self.biases = torch.cat([_filled(part[:, 0]) for part in (*biases[:-1], *biases[-1].chunk(2, dim=2))], dim=1)
        self.widths = torch.tensor([*(weight.shape[1] for weight in weights), self.targets]).to("cpu", torch.int32)
        self.mean = functional.pad(mean, (0, self.latents))
        self.reciprocal = functional.pad(scale.reciprocal(), (0, self.latents), value=1.0)
        self.bounds = torch.stack([highest, highest.exp(), lowest.exp()])
        self._network()  # fails here, before anything is kept, where torch only traces

    def is_of(self, dtype: torch.dtype, tensors: Iterable[Tensor]) -> bool:
        """Whether it was made of this type and of tensors with these values, in the order of the arguments."""
        return dtype == self.dtype and all(map(torch.equal, tensors, self._copied))

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale, each ``[M, R, T]`` in float32.

        Args:
            inputs: ``[M, R, n]``, not normalised.
            latent: ``[M, R, d]``.
        """
        location, scale = torch.empty(2, *self._shape(inputs), dtype=torch.float32, device="cpu")
        self._run(inputs, latent, location, scale)
        return location, scale

    def sample_targets(self, inputs: Tensor, latent: Tensor, generator: torch.Generator) -> Tensor:
        """Targets ``[M, R, T]`` drawn from these Gaussians in the same pass, in float32.

        Args:
            inputs: as in a call.
            latent: likewise.
            generator: source of the seed that decides all draws, whatever the number of threads.
        """
        seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
        targets = torch.empty(self._shape(inputs), dtype=torch.float32, device="cpu")
        self._run(inputs, latent, targets, None, int(seed))
        return targets

    def _shape(self, inputs: Tensor) -> tuple[int, int, int]:
        """Of what comes out."""
        return self.members, inputs.shape[1], self.targets

    def _run(self, inputs: Tensor, latent: Tensor, location: Tensor, scale: Tensor | None, seed: int = 0) -> None:
        """Fill location and scale; without scale, location with draws, by noise of this seed."""
        rows = inputs.shape[1]
        shapes = (self.members, rows, self.inputs), (self.members, rows, self.latents)
        if (inputs.shape, latent.shape) != shapes:  # C would read what is not there
            raise ValueError(f"inputs and latent must be of {shapes}, not {(inputs.shape, latent.shape)}")
        inputs, latent = (x.to("cpu", torch.float32).contiguous().resolve_neg() for x in (inputs, latent))
        pointers = [x if x is None else x.data_ptr() for x in (inputs, latent, location, scale)]
        library, network = _library(self.dtype), self._network()
        blocks = self.members * -(-rows // library.rows_of_a_block())
        threads = max(1, min(torch.get_num_threads(), blocks // BLOCKS_WORTH_A_THREAD))
        bounds = [blocks * i // threads for i in range(threads + 1)]
        failures = [0] * threads

        def run(part: int) -> None:
            failures[part] = library.forward(ctypes.byref(network), *pointers, seed, rows, *bounds[part : part + 2])

        others = [Thread(target=run, args=(part,)) for part in range(1, threads)]
        for thread in others:
            thread.start()
        run(0)
        for thread in others:
            thread.join()
        if any(failures):
            raise MemoryError("no memory for the activations of a block of rows")

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


def can_fuse(dtype: torch.dtype) -> bool:
    """Whether the processor can, and the C code compiles; if it does not compile, one warning says why."""
    below = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")  # by CPUID, or by ATEN_CPU_CAPABILITY
    return dtype in NEEDED and not below and NEEDED[dtype] <= _processor() and _library(dtype) is not None


@cache
def _processor() -> set[str]:
    """What the processor has, by the names in /proc/cpuinfo; nothing where there is no such file."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())


@cache
def _library(dtype: torch.dtype) -> Any:
    """The compiled code, or None."""
    flags = [f"-m{name.replace('avx512_', 'avx512').replace('_', '-')}" for name in sorted(NEEDED[dtype])]
    flags += ["-DBFLOAT16"] if dtype == torch.bfloat16 else []
    try:
        with tempfile.TemporaryDirectory() as folder:
            file, source = Path(folder) / "fused.so", Path(__file__).with_name("fused.c")
            command = [*c_compiler(), "-O3", *flags, "-shared", "-fPIC", str(source), "-o", str(file)]
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if ran.returncode:
                lines = [line for line in ran.stderr.splitlines() if "error" in line]
                raise OSError(lines[0] if lines else f"the C compiler {command[0]} fails")
            library = ctypes.CDLL(str(file))
        if library.request():
            raise OSError("the system does not grant the registers of the processor's matrix unit")
    except OSError as fault:
        warnings.warn(f"plans take longer than they could: {fault}", stacklevel=2)
        return None
    library.forward.argtypes = [*[ctypes.c_void_p] * 5, ctypes.c_uint64, *[ctypes.c_int64] * 3]
    return library


def c_compiler() -> list[str]:
    """The C compiler, by the variable CC or by its usual names."""
    for command in (shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    raise OSError("there is no C compiler (cc, gcc or clang)")


def _filled(x: Tensor) -> Tensor:
    """``[..., n]`` with zeros up to a multiple of 32 at the end."""
    return functional.pad(x, (0, -x.shape[-1] % 32))


def _in_columns(weight: Tensor) -> Tensor:
    """``[M, in, out]`` as ``[M, out / 32, in, 32]``, see fused_float32.h."""
    columns: Tensor = _filled(weight).unflatten(2, (-1, 32)).transpose(1, 2)
    return columns


def _in_tiles(weight: Tensor) -> Tensor:
    """``[M, in, out]`` as ``[M, out / 16, in / 2, 16, 2]`` in bfloat16, see fused_bfloat16.h."""
    weight = _filled(_filled(weight).mT).mT.bfloat16()
    tiles: Tensor = weight.unflatten(2, (-1, 16)).unflatten(1, (-1, 2)).permute(0, 3, 1, 4, 2)
    return tiles
