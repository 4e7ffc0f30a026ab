"""Many online updates in a row: do time or memory per update grow? Prints a Markdown table.

    python docs/measure_long_run.py [UPDATES]

20,000 updates by default; the gradient updates are a tenth of that, since each takes 60 steps.
"""

import sys
import time
from pathlib import Path

import torch
from tqdm import trange

from pyro_dynamics.guides import DiagonalGuide
from pyro_dynamics.inference import BELIEFS, UPDATES
from pyro_dynamics.io.tables import markdown_head, markdown_row
from pyro_dynamics.models import Ensemble, EnsembleConfig, HierarchicalModel


def resident_mib() -> float:
    """Memory of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def measure(belief: str, update: str, updates: int) -> tuple[list[float], list[float]]:
    """CPU milliseconds of each update, and memory after it in MiB, for one environment whose latent changes."""
    torch.manual_seed(0)
    ensemble = Ensemble(4, 2, 3, EnsembleConfig(hidden=(32, 32), weight_decay=(0.0, 0.0, 0.0)))
    model, guide = HierarchicalModel(ensemble, 1, 2), DiagonalGuide(1, 2).for_environments(1)
    rule = UPDATES[update](UPDATES[update].Config())  # type: ignore[arg-type, attr-defined]
    believed = BELIEFS[belief](model, guide, rule)
    generator, index = torch.Generator().manual_seed(0), torch.zeros(1, dtype=torch.long)
    milliseconds, memory = [], []
    for step in trange(updates, desc=f"{belief} {update}", disable=None):
        inputs = torch.randn(1, 4, generator=generator)
        latent = torch.full((5, 1, 2), 0.5 if step % 1000 < 500 else -0.5)
        with torch.no_grad():
            location, scale = ensemble(inputs.expand(5, -1, -1), latent)
        targets = (location + scale * torch.randn(location.shape, generator=generator))[0]
        start = time.process_time()
        believed.update(inputs, targets, index, generator)
        milliseconds.append(1e3 * (time.process_time() - start))
        memory.append(resident_mib())
    return milliseconds, memory


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    head = [
        "belief",
        "update",
        "updates",
        "ms, first tenth (median)",
        "ms, last",
        "MiB after a tenth",
        "MiB at the end",
    ]
    print(markdown_head(head))
    for belief, update in [
        ("recursive", "kalman"),
        ("window", "kalman"),
        ("changepoint", "kalman"),
        ("recursive", "svi"),
    ]:
        count = updates if update == "kalman" else updates // 10
        milliseconds, memory = measure(belief, update, count)
        tenth = count // 10
        early, late = (sorted(part)[tenth // 2] for part in (milliseconds[:tenth], milliseconds[-tenth:]))
        numbers = f"{early:.2f}", f"{late:.2f}", f"{memory[tenth]:.0f}", f"{memory[-1]:.0f}"
        print(markdown_row([belief, update, str(count), *numbers]), flush=True)


if __name__ == "__main__":
    main()
