"""In which precision the planner runs the networks: a probe of this processor's matrix products decides."""

import time
from functools import cache
from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]
Device = Literal["cpu", "cuda"]

WORTH_IT = 2.5
"""bfloat16 is chosen where its products are this many times as fast: with less, what is between them eats it up."""


def planning_dtype(precision: Precision, device: Device = "cpu") -> torch.dtype:
    """The type for the layers' matrix products and activations; ``auto`` measures the processor once a process."""
    if precision == "auto" and device == "cuda":
        return torch.bfloat16
    return _fastest() if precision == "auto" else getattr(torch, precision)


def describe_precision(precision: Precision, device: Device = "cpu") -> str:
    """One line for people: what was chosen, and why."""
    chosen = str(planning_dtype(precision, device)).removeprefix("torch.")
    if precision != "auto":
        return f"planning in {chosen}, as asked"
    if device == "cuda":
        return f"planning in {chosen}, the default on a GPU"
    rates = ", ".join(f"{str(dtype).removeprefix('torch.')} {rate:.0f}" for dtype, rate in _rates().items())
    return f"planning in {chosen}: measured GFLOP/s of a thread: {rates}"


@cache
def _fastest() -> torch.dtype:
    rates = _rates()  # instructions for bfloat16 can be slower than those for float32: look, and do not ask for flags
    return torch.bfloat16 if rates[torch.bfloat16] > WORTH_IT * rates[torch.float32] else torch.float32


@cache
def _rates() -> dict[torch.dtype, float]:
    return {dtype: matrix_product_rate(dtype) for dtype in (torch.float32, torch.bfloat16)}


@torch.inference_mode()
def matrix_product_rate(dtype: torch.dtype, rows: int = 500, width: int = 200, seconds: float = 0.02) -> float:
    """The best rate in 10^9 operations per second of CPU time, for products as the planner has them.

    Args:
        dtype: of ``[rows, width] @ [width, width]``.
        rows: as many as go through the layers together.
        width: of a hidden layer.
        seconds: how long to look.
    """
    x, weight = torch.ones(rows, width, dtype=dtype), torch.ones(width, width, dtype=dtype)
    out = torch.empty_like(x)
    torch.mm(x, weight, out=out)  # the first one prepares
    best, count, begun = float("inf"), 0, time.process_time()
    while time.process_time() < begun + seconds:
        start = time.process_time()
        torch.mm(x, weight, out=out)
        best, count = min(best, time.process_time() - start), count + 1
    best = best or (time.process_time() - begun) / count  # where the clock is too coarse for one product
    return 2 * rows * width * width / best / 1e9
