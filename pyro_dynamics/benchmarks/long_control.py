"""Many steps of control and update in a row, each brought to the disk: do time or memory per step grow?"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.long_run import resident_mib
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.rollouts.adaptation_summary import as_row
from pyro_dynamics.rollouts.stream_checkpoint import StreamCheckpoint
from pyro_dynamics.rollouts.stream_state import StreamState

DRAWS = 400
HEAD = ("steps", "ms per step (median)", "ms (99 % below)", "MiB at the end")


def measure(group: AgentGroup, envs: Any, steps: int, unfinished: Path) -> tuple[np.ndarray, np.ndarray]:
    """CPU milliseconds of each step in total, and the memory after it in MiB.

    Args:
        group: an agent over one environment.
        envs: that environment, with so many steps in an episode.
        steps: how many.
        unfinished: folder that each step is written into, as ``pyro-dynamics adapt`` does.
    """
    stream_state, checkpoint = StreamState(group, 0), StreamCheckpoint(unfinished, {})
    milliseconds, mebibytes = np.empty(steps), np.empty(steps)
    start = time.process_time()
    for step in tqdm(adapt(group, envs, 0, belief_draws=DRAWS, stream_state=stream_state), total=steps, mininterval=5):
        checkpoint.add(as_row(step), step, stream_state)
        now = time.process_time()
        milliseconds[step.index], mebibytes[step.index] = 1e3 * (now - start), resident_mib()
        start = now
    return milliseconds, mebibytes


def tenths(milliseconds: np.ndarray, mebibytes: np.ndarray) -> list[Row]:
    """A row for each tenth of the steps."""
    return [
        {
            "steps": int(part[-1]) + 1,
            "ms": float(np.median(milliseconds[part])),
            "ms_99": float(np.quantile(milliseconds[part], 0.99)),
            "mib": float(mebibytes[part[-1]]),
        }
        for part in np.array_split(np.arange(len(milliseconds)), 10)
    ]


def growth(mebibytes: np.ndarray) -> float:
    """KiB per 1000 steps, after the first tenth."""
    late = np.arange(len(mebibytes) // 10, len(mebibytes))
    return float(1024 * np.polyfit(late / 1000, mebibytes[late], 1)[0])


def table(rows: Sequence[Row], kib_per_1000: float) -> str:
    """As Markdown."""
    lines = [[str(row["steps"]), f"{row['ms']:.2f}", f"{row['ms_99']:.2f}", f"{row['mib']:.1f}"] for row in rows]
    return f"{markdown_table(HEAD, lines)}\n\nMemory after the first tenth: {kib_per_1000:+.2f} KiB per 1000 steps."
