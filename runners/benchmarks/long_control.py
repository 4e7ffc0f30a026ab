"""pyro-dynamics benchmark long-control: one pendulum with sinusoidal gravity, controlled for very long."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_dynamics.benchmarks import long_control
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import KalmanUpdateConfig
from pyro_dynamics.runners import train
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import OnlineConfig
from pyro_dynamics.runners.common.factory import group_for, load_run

TRAIN = [
    *("--rounds", "1", "--episodes", "1", "--ensemble.hidden", "16", "--ensemble.weight-decay", "0", "0"),
    *("--controller.horizon", "3", "--controller.particles", "3", "--planner", "mppi"),
    *("--planner.candidates", "10", "--planner.iterations", "1"),
]
"""A network of one layer of 16 and a tiny planner: it is the bookkeeping that is measured."""


@dataclass(frozen=True)
class LongControlFlags(RecordFlags):
    """Plan, update and write each step to the disk, as `adapt` does, and see whether time or memory per step grows.

    One pendulum with sinusoidal gravity, and a very small network, trained for one round first.
    """

    steps: int = 200_000
    """How many in a row."""

    def __post_init__(self) -> None:
        if self.steps < 100:
            raise UserError(f"--steps must be at least 100, not {self.steps}: tenths of them are compared")


Flags = LongControlFlags


def measure_rows(flags: LongControlFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    with tempfile.TemporaryDirectory() as home:
        run = Path(home, "run")
        train.main([*TRAIN, "--out", str(run), "--threads", str(flags.threads)])
        online = OnlineConfig(update="kalman", update_config=KalmanUpdateConfig(iterations=1))
        _, _, family, trained = load_run(run, online=online)
        schedule = family.parse_schedule("sine:2:10:500", flags.steps)
        envs, group = family.make_vector([schedule], flags.steps), group_for(trained, family, [schedule.at(0)])
        milliseconds, mebibytes = long_control.measure(group, envs, flags.steps, Path(home, "unfinished"))
        envs.close()
    settings = {"steps": flags.steps, "kib_per_1000_steps": long_control.growth(mebibytes)}
    return settings, long_control.tenths(milliseconds, mebibytes)


def table(recording: Recording) -> str:
    """The rows as Markdown."""
    return long_control.table(recording.rows, recording.settings["kib_per_1000_steps"])
