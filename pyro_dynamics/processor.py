"""The processor's settings that decide how fast torch is: threads, subnormal numbers, and memory that is kept."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pyro
import torch
from pyro import poutine

from pyro_dynamics.errors import UserError
from pyro_dynamics.given_numbers import whole_number
from pyro_dynamics.seeding import TORCH

MOST_THREADS = 1024
"""More than any machine is fast with."""


def set_threads(threads: int) -> None:
    """Use this many processor threads, let numbers below 1e-38 be 0, and keep memory that was used once, in float32.

    Weight decay drives unused weights down into those (subnormal) numbers, with which a processor is many times
    slower: after 12 rounds on the slopes a plan took 1050 ms with them and 205 ms without.

    Raises:
        UserError: if the number is not positive.
    """
    threads = whole_number(threads, "--threads", 1)
    if threads > MOST_THREADS:  # torch would give up in the middle of something, when it starts them
        raise UserError(f"--threads must be at most {MOST_THREADS}, not {threads}: as many as there are cores at best")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.set_default_dtype(torch.float32)  # a module of the user's, imported by now, may have set another
    keep_memory()


@contextmanager
def computing(threads: int = 1) -> Iterator[None]:
    """The same for a while: a library must not change its user's settings, nor they its numbers. Threads take turns.

    Raises:
        UserError: if the number is not positive.
    """
    with TORCH, own_settings():
        set_threads(threads)
        yield


@contextmanager
def own_settings() -> Iterator[None]:
    """Within, nothing that a program may set for all of its process decides a number; after it, all is as it was.

    New tensors are float32 and on the processor, gradients are on, products are neither of less precision nor in
    autocast, numpy warns as it does by default, distributions check their arguments, and Pyro's handlers see nothing.
    """
    threads, flushed = torch.get_num_threads(), flushes_subnormals()
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    on_processor = torch.get_default_device().type == "cpu"  # then without a context: torch would ask it at every call
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
        use_deterministic_algorithms(False, False)
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            nullcontext() if on_processor else torch.device("cpu"),
            torch.autocast("cpu", enabled=False),
            np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
            pyro.validation_enabled(True),
            poutine.block(),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        use_deterministic_algorithms(*deterministic)


def use_deterministic_algorithms(enabled: bool, warn_only: bool) -> None:
    """torch's own where it changes something: it imports torch's compiler, which takes long."""
    now = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if now != (enabled, warn_only):
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


def flushes_subnormals() -> bool:
    """Whether the processor takes subnormal numbers for 0 now; torch has no function that says so."""
    return sys.float_info.min / 2 == 0.0


def keep_memory() -> None:
    """Let glibc keep freed memory for the next tensors: taken from the system anew it costs a tenth of a gradient step.

    Elsewhere than on glibc this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
        mallopt(trim_threshold, 1 << 30)
        mallopt(mmap_threshold, 1 << 25)  # the highest that it takes
