"""Random streams that are derived, never stored.

Every random draw of a run comes from a stream that is named by the run's seed and a key such as ``("round", 3,
"planning")``. A resumed run needs no saved generator state: it derives the same stream again.
"""

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pyro_dynamics.errors import UserError

TORCH = threading.RLock()
"""Held while torch's settings or its global generator are another's: both are one for all threads of the process."""


def derive_seed(seed: int, *key: int | str) -> int:
    """A 63-bit seed for the stream ``key`` of the run ``seed``; different keys give independent streams.

    Raises:
        UserError: if the seed is negative, or no whole number.
    """
    if not isinstance(seed, int | np.integer):
        raise UserError(f"a seed must be a whole number, not {seed!r}")
    if seed < 0:
        raise UserError(f"a seed must be at least 0, not {seed}")
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)


def derive_generator(seed: int, *key: int | str) -> torch.Generator:
    """A torch generator at the start of the stream ``key`` of the run ``seed``."""
    return torch.Generator().manual_seed(derive_seed(seed, *key))


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let code that knows only torch's global generator (Pyro, ``rsample``) draw from ``generator`` instead.

    The global generator is left as it was found; threads take turns.
    """
    with TORCH:
        before = torch.get_rng_state()
        torch.set_rng_state(generator.get_state())
        try:
            yield
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(before)
