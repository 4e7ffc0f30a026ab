"""Many online updates in a row: do time or memory per update grow?"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import trange

from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

INPUTS, LATENT, TARGETS, MEMBERS = 4, 2, 3, 5
HEAD = (
    "belief",
    "update",
    "updates",
    "ms, first tenth (median)",
    "ms, last",
    "MiB after a tenth",
    "MiB at the end",
)


def resident_mib() -> float:
    """Memory of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def measure(belief: Any, ensemble: Callable[..., Any], updates: int, words: str) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each update, and memory after it in MiB, for one environment whose latent changes.

    Args:
        belief: a fresh belief about one environment.
        ensemble: the likelihood of its model, from which the transitions are drawn.
        updates: how many.
        words: before the progress bar.
    """
    generator, index = torch.Generator().manual_seed(0), torch.zeros(1, dtype=torch.long)
    milliseconds, memory = [], []
    for step in trange(updates, desc=words, disable=None):
        inputs = torch.randn(1, INPUTS, generator=generator)
        latent = torch.full((MEMBERS, 1, LATENT), 0.5 if step % 1000 < 500 else -0.5)
        with torch.no_grad():
            location, scale = ensemble(inputs.expand(MEMBERS, -1, -1), latent)
        targets = (location + scale * torch.randn(location.shape, generator=generator))[0]
        start = time.process_time()
        belief.update(inputs, targets, index, generator)
        milliseconds.append(1e3 * (time.process_time() - start))
        memory.append(resident_mib())
    return milliseconds, memory


def summary(milliseconds: Sequence[float], memory: Sequence[float]) -> Row:
    """Median time of the first and the last tenth, and memory after the first tenth and at the end."""
    tenth = max(len(milliseconds) // 10, 1)
    early, late = (sorted(part)[tenth // 2] for part in (milliseconds[:tenth], milliseconds[-tenth:]))
    return {"ms_first": early, "ms_last": late, "mib_first": memory[tenth - 1], "mib_last": memory[-1]}


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [
        [
            *(row["belief"], row["update"], str(row["updates"])),
            *(f"{row['ms_first']:.2f}", f"{row['ms_last']:.2f}", f"{row['mib_first']:.0f}", f"{row['mib_last']:.0f}"),
        ]
        for row in rows
    ]
    return markdown_table(HEAD, lines, words=2)
