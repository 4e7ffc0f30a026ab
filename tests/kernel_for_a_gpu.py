"""Compile the kernel of models/fused_triton.py for a GPU of compute capability 9.0, which takes none; prints JSON."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pyro_dynamics.models import Ensemble, EnsembleConfig
from pyro_dynamics.models import fused_triton as kernels

HOPPER = GPUTarget("cuda", 90, 32)


def resources(width: int, hidden: int) -> dict[str, int]:
    """What a block of rows takes for HalfCheetah's networks of this size: bytes of memory on the chip and of spills."""
    net = Ensemble(24, 1, 18, EnsembleConfig(5, (width,) * hidden, (0.0,) * (hidden + 1)))
    fused = kernels.TritonEnsemble(torch.bfloat16, *net._parts())
    names = kernels._forward.arg_names
    blocks = [f"tensordesc<bf16{part.block_shape}>".replace(" ", "") for part in fused.weights]
    counts = ["i32", "i32"]
    types = [*["*fp32"] * 4, *blocks, *["*fp32"] * 4, *counts, *["constexpr"] * 8]
    constants = {(names.index(name),): value for name, value in zip(names[-8:], fused.sizes(), strict=True)}
    source = ASTSource(kernels._forward, dict(zip(names, types, strict=True)), constants)
    compiled = triton.compile(source, target=HOPPER, options={"num_warps": kernels.WARPS})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(compiled.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        told = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    usage = dict(pair.split(":") for pair in told.split() if ":" in pair and pair.split(":")[1].isdigit())
    products = compiled.asm["ptx"].count("wgmma.mma_async")
    return {"shared": compiled.metadata.shared, "stack": int(usage["STACK"]), "matrix products": products}


if __name__ == "__main__":
    json.dump({name: resources(*size) for name, size in {"paper": (200, 4), "cpu": (128, 3)}.items()}, sys.stdout)
