"""pyro-dynamics benchmark belief: what the beliefs of trained runs are worth on environments never seen."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from pyro_dynamics.benchmarks.belief.table import table_of
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.io.reuse import as_stored
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.belief_run import Acted, MeasuredRun, Part, Settings
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import to_json

SHORTEST = 20
"""Steps in which a belief can settle before it is judged."""


@dataclass(frozen=True)
class BeliefFlags(RecordFlags):
    """Measure what beliefs are worth on environments that were never trained on, and after a change.

    Each run's own agent acts once in all environments, and every method follows these same streams; only for the
    returns each method acts itself. Streams and figures are kept, so that a killed command resumes where it was, and a
    further method costs its own steps alone. The table of a family has a column for each method, and Student's t
    intervals (95 %) over its runs; of a single run they are over its streams.

    For example: pyro-dynamics benchmark belief --runs runs/a-0 runs/a-1 --methods changepoint:kalman window:svi
    """

    runs: tuple[Path, ...] = ()
    """Folders of trained runs of latent agents in families with numeric contexts; those that differ in
    their seed alone are averaged."""
    methods: tuple[str, ...] = ()
    """Each BELIEF:UPDATE, with settings behind a second colon: changepoint:kalman:hazard=0.01,temperature=0.5. What it
    does not name is as in the run. By default the run's own settings. A reference is always added: the same belief with
    the Kalman update, and the oracle reset, whose belief returns to the prior when the truth changes."""
    parts: tuple[Part, ...] = get_args(Part)
    """steady: coverage, disagreement of two episodes, log predictive density, time; change: steps to follow the
    family's example schedule; recall: the second visit of a context; return: less the oracle reset's; network: its own
    intervals on the last round's episodes, and the width of trained guides."""
    acting: Acted = "replay"
    """replay: streams that the run's own agent acted; random: random actions, without planning and without returns."""
    steps: int = 100
    """Steps of a stream whose context stays; those with changes have twice as many."""
    episodes: int = 4
    """Streams of each schedule with a change."""
    seed: int = 0
    """Names the random streams."""
    folder: Path | None = None
    """Where streams and figures are kept, in a folder for each run; by default in RUN/belief-benchmark."""
    again: bool = False
    """Measure anew on the kept streams, after a change of the code."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes")
        if self.steps < SHORTEST:
            raise UserError(f"--steps must be at least {SHORTEST}, in which a belief can settle, not {self.steps}")
        if not self.parts:
            raise UserError(f"--parts needs one or more of {', '.join(get_args(Part))}")


Flags = BeliefFlags


def measure_rows(flags: BeliefFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    if not flags.runs:
        raise UserError("give folders of trained runs: pyro-dynamics benchmark belief --runs RUN RUN")
    settings = Settings(flags.parts, flags.acting, flags.steps, flags.episodes, flags.seed)
    runs = []
    for path in flags.runs:  # all are looked at before the first takes its time
        folder = path / "belief-benchmark" if flags.folder is None else flags.folder / path.name
        runs.append(MeasuredRun(path, flags.methods, settings, folder, flags.again))
    require_names(runs)
    rows = []
    with progress_bar(total=sum(one.total for one in runs), unit="step") as bar:
        for one, setup in zip(runs, setups(runs), strict=True):
            bar.set_description(one.path.name)
            rows += [{"setup": setup, **row} for row in one.rows(bar.update)]
    return asdict(settings), rows


def require_names(runs: Sequence[MeasuredRun]) -> None:
    """Refuse runs whose folders have one name, by which their rows are known; raises :class:`UserError`."""
    name, count = Counter(one.path.name for one in runs).most_common(1)[0]
    if count > 1:
        raise UserError(f"{count} runs are called {name!r}: copy one of them to a folder of another name")


def setups(runs: Sequence[MeasuredRun]) -> list[str]:
    """What each run is a seed of: its family, and the settings in which it differs from other runs of that family."""
    flat = [flattened(as_stored(to_json(one.config))) for one in runs]
    names = []
    for settings in flat:
        family = [one for one in flat if one["family"] == settings["family"]]
        keys = dict.fromkeys(key for one in family for key in one if key not in ("seed", "device", "preset"))
        differing = [key for key in keys if len({json.dumps(one.get(key)) for one in family}) > 1]
        words = [f"{key.replace('_config', '')} {settings[key]}" for key in differing if key in settings]
        names.append(", ".join([settings["family"], *words]))
    return names


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        inner = flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
        found |= inner
    return found


def table(recording: Recording) -> str:
    """The rows as Markdown, a table for each family."""
    return table_of(recording.rows)
