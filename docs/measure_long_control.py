"""Many steps of control and update in a row: do time or memory per step grow? Prints a Markdown table.

    python docs/measure_long_control.py [STEPS]

200,000 steps by default, of one pendulum with sinusoidal gravity and a network of one layer of 16: each plans, updates
a belief, and writes its step to the disk, as in ``pyro-dynamics adapt``.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure_long_run import resident_mib
from tqdm import tqdm

from pyro_dynamics.inference import KalmanUpdateConfig
from pyro_dynamics.io.tables import markdown_head, markdown_row
from pyro_dynamics.rollouts.adaptation import adapt
from pyro_dynamics.rollouts.adaptation_summary import as_row
from pyro_dynamics.rollouts.stream_checkpoint import StreamCheckpoint
from pyro_dynamics.rollouts.stream_state import StreamState
from pyro_dynamics.runners.common.configuration import OnlineConfig
from pyro_dynamics.runners.common.factory import group_for, load_run, set_threads
from pyro_dynamics.runners.main import main as command

TRAIN = [
    *("train", "--rounds", "1", "--episodes", "1", "--ensemble.hidden", "16", "--ensemble.weight-decay", "0", "0"),
    *("--controller.horizon", "3", "--controller.particles", "3", "--planner", "mppi"),
    *("--planner.candidates", "10", "--planner.iterations", "1"),
]
DRAWS = 400


def measure(home: Path, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """CPU milliseconds of each step in total, and the memory after it in MiB."""
    assert command([*TRAIN, "--out", str(home / "run")]) == 0
    online = OnlineConfig(update="kalman", update_config=KalmanUpdateConfig(iterations=1))
    _, _, family, trained = load_run(home / "run", online=online)
    schedule = family.parse_schedule("sine:2:10:500", steps)
    envs, group = family.make_vector([schedule], steps), group_for(trained, family, [schedule.at(0)])
    stream_state, checkpoint = StreamState(group, 0), StreamCheckpoint(home / "unfinished", {})
    milliseconds, mebibytes = np.empty(steps), np.empty(steps)
    start = time.process_time()
    for step in tqdm(adapt(group, envs, 0, belief_draws=DRAWS, stream_state=stream_state), total=steps, mininterval=5):
        checkpoint.add(as_row(step), step, stream_state)
        now = time.process_time()
        milliseconds[step.index], mebibytes[step.index] = 1e3 * (now - start), resident_mib()
        start = now
    return milliseconds, mebibytes


def main() -> None:
    """Print the table."""
    set_threads(1)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory() as folder:
        milliseconds, mebibytes = measure(Path(folder), steps)
    print(markdown_head(["steps", "ms per step (median)", "ms (99 % below)", "MiB at the end"]))
    for part in np.array_split(np.arange(steps), 10):
        times, last = milliseconds[part], part[-1] + 1
        numbers = f"{np.median(times):.2f}", f"{np.quantile(times, 0.99):.2f}", f"{mebibytes[part[-1]]:.1f}"
        print(markdown_row([str(last), *numbers]))
    late = np.arange(steps // 10, steps)
    slope = np.polyfit(late / 1000, mebibytes[late], 1)[0]
    print(f"\nmemory after the first tenth: {1024 * slope:+.2f} KiB per 1000 steps")


if __name__ == "__main__":
    main()
