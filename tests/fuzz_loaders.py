"""Damage files of every kind that is read, for some minutes, and count: the only error that may come out is UserError.

python tests/fuzz_loaders.py MINUTES [SEED] [LOADER ...]
"""

import contextlib
import io
import logging
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import torch
from damage import damaged
from foreign_files import LOADERS, Loader, make_samples
from hypothesis import HealthCheck, given, seed, settings

from pyro_dynamics.errors import UserError

MEMORY = 12 * 2**30
"""Bytes of addresses that a process may have: what would take more fails here as it would on a small machine."""


def fuzz(home: Path, loader: Loader, examples: int, number: int, counts: Counter[str]) -> None:
    """Read ``examples`` damaged copies of a loader's file; what was there is put back."""
    file = home / loader.file
    honest = file.read_bytes()

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False
    )
    @given(content=damaged(loader.file, honest))
    def read(content: bytes) -> None:
        file.write_bytes(content)
        counts["tries"] += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                loader.load(home)
        except UserError as told:
            counts["refused"] += 1
            if not str(told):
                raise AssertionError("a refusal without words") from told
        else:
            counts["read"] += 1

    try:
        read()
    finally:
        file.write_bytes(honest)


def main(minutes: float, first: int = 0, *names: str) -> int:
    """Go round all loaders until the time is over; 1 if one of them crashed."""
    torch.set_num_threads(1)
    logging.disable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts: dict[str, Counter[str]] = {name: Counter() for name in names or LOADERS}
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            home = make_samples(Path(folder))
        number = first
        while time.monotonic() < end:
            for name, count in counts.items():
                print(f"\r{name:<30}", end="", file=sys.stderr, flush=True)
                try:
                    fuzz(home, LOADERS[name], 50, number, count)
                except Exception:
                    count["crashed"] += 1
                    print(f"\n{name}, seed {number}:\n{traceback.format_exc(limit=-4)}", flush=True)
            number += 1
    print(f"\n{'loader':<30}{'tries':>8}{'refused':>9}{'read':>7}{'crashed':>9}   seeds {first} to {number - 1}")
    for name, count in counts.items():
        print(f"{name:<30}{count['tries']:>8}{count['refused']:>9}{count['read']:>7}{count['crashed']:>9}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{'all':<30}{total['tries']:>8}{total['refused']:>9}{total['read']:>7}{total['crashed']:>9}")
    return int(total["crashed"] > 0)


if __name__ == "__main__":
    _, wanted, *rest = sys.argv
    sys.exit(main(float(wanted), int(rest[0]) if rest else 0, *rest[1:]))
