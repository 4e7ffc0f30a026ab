"""The processor's settings that decide how fast torch is: threads, subnormal numbers, and memory that is kept."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pyro_dynamics.errors import UserError
from pyro_dynamics.seeding import TORCH

MOST_THREADS = 1024
"""More than any machine is fast with."""


def set_threads(threads: int) -> None:
    """Use this many processor threads, let numbers below 1e-38 be 0, and keep memory that was used once.

    Weight decay drives unused weights down into those (subnormal) numbers, with which a processor is many times
    slower: after 12 rounds on the slopes a plan took 1050 ms with them and 205 ms without.

    Raises:
        UserError: if the number is not positive.
    """
    if threads < 1:
        raise UserError(f"--threads must be at least 1, not {threads}")
    if threads > MOST_THREADS:  # torch would give up in the middle of something, when it starts them
        raise UserError(f"--threads must be at most {MOST_THREADS}, not {threads}: as many as there are cores at best")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    keep_memory()


@contextmanager
def computing(threads: int = 1) -> Iterator[None]:
    """The same for a while: torch's settings are then as they were, since a library must not change its user's.

    Nor do its user's change the numbers: within, gradients are on and new tensors are float32. Threads take turns.

    Raises:
        UserError: if the number is not positive.
    """
    with TORCH:
        before, flushed, dtype = torch.get_num_threads(), flushes_subnormals(), torch.get_default_dtype()
        try:
            set_threads(threads)
            torch.set_default_dtype(torch.float32)
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            torch.set_num_threads(before)
            torch.set_flush_denormal(flushed)
            torch.set_default_dtype(dtype)


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
