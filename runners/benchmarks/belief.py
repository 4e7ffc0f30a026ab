"""pyro-dynamics benchmark belief: what the beliefs of trained runs are worth on environments never seen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import tyro

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.belief import table as tables
from pyro_dynamics.benchmarks.belief.dispersion import dispersion
from pyro_dynamics.benchmarks.belief.figures import FIGURES, PREDICTED, Figures, return_figures
from pyro_dynamics.benchmarks.belief.following import Decoder, follow
from pyro_dynamics.benchmarks.belief.network import network_coverage
from pyro_dynamics.benchmarks.belief.streams import Streams, act, kept_file
from pyro_dynamics.benchmarks.belief.trials import Trial, change_trial, recall_trial, scale_of, steady_trial
from pyro_dynamics.benchmarks.recording import Recording
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError, require_positive
from pyro_dynamics.inference import RecursiveConfig
from pyro_dynamics.io.files import make_folder
from pyro_dynamics.io.reuse import stored_result, write_result
from pyro_dynamics.progress_lines import progress_bar
from pyro_dynamics.runners.benchmarks.common import RecordFlags
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, online_for
from pyro_dynamics.runners.common.factory import group_for, load_run
from pyro_dynamics.runners.common.online_words import online_word, read_online
from pyro_dynamics.transitions import Transitions

ORACLE_RESET = "oracle-reset"
"""The reference: a recursive belief, by the run's own update, that returns to the prior when the truth changes."""
Part = Literal["steady", "change", "recall", "return", "network"]
Acted = Literal["replay", "random"]


@dataclass(frozen=True)
class BeliefFlags(RecordFlags):
    """Measure what beliefs are worth on environments never trained on, and what they do after a change.

    Each run's own agent acts once in all environments, and every method follows these same streams; only for the
    returns each method acts itself. Streams and figures are kept, so that a killed command resumes where it was and a
    further method costs its own updates alone. The table has a column for each method, and Student's t intervals (95 %)
    over the runs of a family.

    Example: pyro-dynamics benchmark belief --runs runs/a-0 runs/a-1 --methods changepoint:kalman changepoint:svi
    """

    runs: tuple[Path, ...] = ()
    """Folders of trained runs of latent agents in families with numeric contexts; those of one family are its seeds."""
    methods: tuple[str, ...] = ()
    """Each BELIEF:UPDATE, with settings behind a second colon: changepoint:kalman:hazard=0.01,temperature=0.5. What is
    not named is as in the run; by default the run's own settings are measured alone."""
    parts: tuple[Part, ...] = get_args(Part)
    """steady: coverage, disagreement of two episodes, log predictive density; change: recovery; recall: the second
    visit of a context; return: against oracle reset; network: its own intervals, and the width of trained guides."""
    acting: Acted = "replay"
    """replay: streams that the run's own agent acted; random: random actions, without planning (and no returns)."""
    steps: int = 100
    """Steps of a stream whose context stays; those with changes have twice as many."""
    episodes: int = 4
    """Streams of each schedule with a change."""
    seed: int = 0
    """Names the random streams."""
    folder: Path | None = None
    """Where streams and figures are kept, in a folder for each run; by default in RUN/belief-benchmark."""
    again: bool = False
    """Measure anew what is kept, on the kept streams: after a change of the code."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes")
        if self.steps < 20:
            raise UserError(
                f"--steps must be at least 20, not {self.steps}: a belief has to settle before it is judged"
            )


Flags = BeliefFlags


def measure_rows(flags: BeliefFlags) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings and rows."""
    if not flags.runs:
        raise UserError("give the folders of one or more trained runs: pyro-dynamics benchmark belief --runs DIR DIR")
    measured = [Measured(flags, path) for path in flags.runs]  # all are looked at before the first takes its time
    rows = []
    with progress_bar(unit="step", total=sum(one.total for one in measured)) as bar:
        for one in measured:
            rows += one.rows(bar)
    settings = {"acting": flags.acting, "steps": flags.steps, "episodes": flags.episodes, "seed": flags.seed}
    return settings, rows


class Measured:
    """One run, and what is kept of it.

    Args:
        flags: of the command.
        path: the run's folder.

    Raises:
        UserError: if its beliefs cannot be measured, or a method does not exist.
    """

    def __init__(self, flags: BeliefFlags, path: Path) -> None:
        self.flags, self.path = flags, path
        self.run, self.config, self.family, self.trained = load_run(path)
        require_simulator(self.family)
        require_beliefs(path, self.family, self.trained)
        self.methods = methods_of(flags.methods, self.config)
        self.fingerprint = self.trained.fingerprint()
        self.decode: Decoder = ContextProbe(self.trained.beliefs()[0].numpy(), self.family.train).predict
        self.scale = scale_of(self.family)
        make: dict[str, Callable[[], Trial]] = {
            "steady": lambda: steady_trial(self.family, flags.steps),
            "change": lambda: change_trial(self.family, flags.steps, flags.episodes),
            "recall": lambda: recall_trial(self.family, flags.steps, flags.episodes),
        }
        self.trials = {name: made() for name, made in make.items() if name in flags.parts}
        if "return" in flags.parts and flags.acting == "replay":
            self.trials.setdefault("change", make["change"]())
        where = path / "belief-benchmark" if flags.folder is None else flags.folder / path.name
        self.out = make_folder(where)

    @property
    def total(self) -> int:
        """Steps of all streams, acted and followed."""
        followed = sum(trial.steps * (1 + len(self.methods)) for trial in self.trials.values())
        acted = self.trials["change"].steps * (1 + len(self.methods)) if self.returns else 0
        return followed + acted

    @property
    def returns(self) -> bool:
        """Whether returns are measured."""
        return "return" in self.flags.parts and self.flags.acting == "replay"

    def rows(self, bar: Any) -> list[dict[str, Any]]:
        """A row for each method, one for the oracle-reset baseline, and one for the network."""
        common = {"family": self.config.family, "run": self.path.name, "seed": self.config.seed}
        found = []
        for name, online in {**self.methods, ORACLE_RESET: None}.items():
            bar.set_description(f"{self.path.name} {name}")
            row: dict[str, Any] = {**common, "method": name}
            for trial in self.trials.values():
                if trial.name in self.flags.parts and (online is not None or trial.name != "steady"):
                    row[trial.name] = self.figures(trial, online, bar)
            if self.returns:
                row["return"] = self.returns_of(online, bar)
            if online is not None and "steady" in self.trials:
                row["update_ms"] = self.update_ms(online)
            found.append(row)
        if "network" in self.flags.parts:
            found.append({**common, "method": "", "network": self.network()})
        return found

    def settings(self, trial: Trial, online: OnlineConfig | None = None) -> dict[str, Any]:
        """What decides the figures of a trial; of the streams alone without ``online``."""
        schedules = [one.changes for one in trial.schedules]
        values = {"network": self.fingerprint, "schedules": schedules, "steps": trial.steps, "seed": self.flags.seed}
        values |= {"acting": self.flags.acting, "own": repr(self.config.online)}
        return values if online is None else {**values, "online": repr(online)}

    def streams(self, trial: Trial, bar: Any) -> Streams:
        """The streams of a trial, acted by the run's own agent or at random, if they are not kept."""
        file = kept_file(self.out, f"{trial.name}-streams", self.settings(trial), ".npz")
        if not file.is_file():
            self.act(trial, self.config.online, self.flags.acting == "random", False, bar).save(file)
        return Streams.load(file)

    def act(self, trial: Trial, online: OnlineConfig, random: bool, reset: bool, bar: Any) -> Streams:
        """Act in all environments of a trial, with the beliefs of such a configuration."""
        flags, group = self.flags, self.group(online, trial)
        return act(group, self.family, trial.schedules, trial.steps, flags.seed, random, reset, lambda: bar.update(1))

    def group(self, online: OnlineConfig, trial: Trial) -> AgentGroup:
        """Fresh beliefs of such a configuration about a trial's environments."""
        return group_for(load_run(self.path, online=online)[-1], self.family, trial.starts)

    def figures(self, trial: Trial, online: OnlineConfig | None, bar: Any) -> Figures:
        """Of one method, or of the oracle-reset baseline (None), on a trial's streams."""
        reset, online = online is None, online or self.baseline
        settings = {**self.settings(trial, online), "reset": reset}
        file = kept_file(self.out, trial.name, settings, ".json")
        kept = None if self.flags.again else stored_result(file, settings, "figures")
        if kept is not None:
            bar.update(trial.steps)
            return dict(kept)
        streams = self.streams(trial, bar)
        predicted = PREDICTED if trial.name == "steady" else 0
        found = follow(
            self.group(online, trial),
            streams,
            self.decode,
            trial.schedules,
            self.flags.seed,
            predicted,
            reset,
            lambda: bar.update(1),
        )
        figures: Figures = FIGURES[trial.name](trial, found, self.scale)
        write_result(file, settings, "figures", figures)
        return figures

    def returns_of(self, online: OnlineConfig | None, bar: Any) -> Figures:
        """Returns on the schedules with a change and without, of a method that acts itself."""
        trial, reset, online = self.trials["change"], online is None, online or self.baseline
        if not reset and online == self.config.online:
            return return_figures(trial, self.streams(trial, bar).returns)
        settings = {**self.settings(trial, online), "reset": reset}
        file = kept_file(self.out, "return", settings, ".json")
        kept = None if self.flags.again else stored_result(file, settings, "figures")
        if kept is None:
            kept = return_figures(trial, self.act(trial, online, False, reset, bar).returns)
            write_result(file, settings, "figures", kept)
        return dict(kept)

    def update_ms(self, online: OnlineConfig) -> float:
        """CPU time of one update of one belief in milliseconds, the median over the first steps of one stream."""
        trial = self.trials["steady"]
        settings = {**self.settings(trial, online), "of": "update"}
        file = kept_file(self.out, "update", settings, ".json")
        kept = None if self.flags.again else stored_result(file, settings, "ms")
        if kept is None:
            streams = self.streams(trial, None).first(1, PREDICTED)
            group = group_for(load_run(self.path, online=online)[-1], self.family, trial.starts[:1])
            found = follow(group, streams, self.decode, trial.schedules[:1], self.flags.seed)
            kept = float(np.median(found.update_ms))
            write_result(file, settings, "ms", kept)
        return float(kept)

    def network(self) -> Figures:
        """The network's coverage of the last round's episodes, and the dispersion of the trained guides."""
        *trained_on, held_out = self.run.transitions()
        agent = self.trained.agents[0]
        return {
            **network_coverage(agent, held_out),
            "dispersion": dispersion(agent, Transitions.concatenate(trained_on)),
        }

    @property
    def baseline(self) -> OnlineConfig:
        """How the oracle-reset baseline's beliefs follow, between the changes."""
        return replace(self.config.online, belief="recursive", belief_config=RecursiveConfig())


def methods_of(words: tuple[str, ...], config: RunConfig) -> dict[str, OnlineConfig]:
    """The methods by name: those that were asked for, and each one's belief with the Kalman update, as a reference.

    Raises:
        UserError: if a word is none.
    """
    own = config.online
    found = {word: read_online(word, own) for word in words} or {online_word(own): own}
    for online in list(found.values()):
        reference = read_online(f"{online.belief}:kalman", online)
        if reference not in found.values() and online_for(config.guide, reference) == reference:
            found[online_word(reference)] = reference
    return found


def require_beliefs(path: Path, family: Family, trained: AgentGroup) -> None:
    """Refuse runs without beliefs about numbers; raises :class:`UserError`."""
    if not family.numeric or len(trained.agents) > 1 or not trained.agents[0].belief_dim:
        raise UserError(
            f"{path}: only the beliefs of an agent that infers a latent, in a family with numeric parameters, can be "
            "measured against the truth"
        )


def table(recording: Recording) -> str:
    """The rows as Markdown, a table for each family."""
    return tables.table(recording.rows)
