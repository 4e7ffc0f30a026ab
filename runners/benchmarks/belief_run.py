"""One trained run in the belief benchmark: its streams, its methods, and the figures that are kept of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.benchmarks.belief.dispersion import dispersion
from pyro_dynamics.benchmarks.belief.figures import FIGURES, PREDICTED, Figures
from pyro_dynamics.benchmarks.belief.following import follow
from pyro_dynamics.benchmarks.belief.network import network_coverage
from pyro_dynamics.benchmarks.belief.streams import Streams, act, kept_file
from pyro_dynamics.benchmarks.belief.table import ORACLE_RESET
from pyro_dynamics.benchmarks.belief.trials import TRIALS, Trial, scale_of
from pyro_dynamics.datasets.logged_family import require_simulator
from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.environments import Family
from pyro_dynamics.errors import UserError
from pyro_dynamics.inference import RecursiveConfig
from pyro_dynamics.io.files import make_folder
from pyro_dynamics.io.reuse import stored_result, write_result
from pyro_dynamics.runners.common.configuration import OnlineConfig, RunConfig, online_for
from pyro_dynamics.runners.common.factory import environment_changes, group_for, load_run
from pyro_dynamics.runners.common.online_words import online_word, read_online
from pyro_dynamics.seeding import derive_seed
from pyro_dynamics.transitions import Transitions

Part = Literal["steady", "change", "recall", "return", "network"]
Acted = Literal["replay", "random"]
RETURNED = ("change", "stay")
"""Trials whose returns are compared."""
OnStep = Callable[[int], object]
"""Called with the number of steps that were made, or taken up."""


@dataclass(frozen=True)
class Settings:
    """What is measured of every run.

    Attributes:
        parts: which figures.
        acting: whether a run's own agent acts the streams, or random actions.
        steps: of a stream whose context stays.
        episodes: streams of each schedule with a change.
        seed: names the random streams.
    """

    parts: tuple[Part, ...]
    acting: Acted
    steps: int
    episodes: int
    seed: int

    @property
    def returns(self) -> bool:
        """Whether every method acts itself."""
        return "return" in self.parts and self.acting == "replay"

    def trials(self, family: Family) -> dict[str, Trial]:
        """The streams that are needed, by name."""
        needed = {*self.parts, *(RETURNED if self.returns else ()), *(["known"] if "network" in self.parts else [])}
        return {name: make(family, self.steps, self.episodes) for name, make in TRIALS.items() if name in needed}


class MeasuredRun:
    """One run, with what was measured of it before.

    Args:
        path: the run's folder.
        words: the methods, each as :func:`~pyro_dynamics.runners.common.online_words.read_online` takes it; without any
            the run's own settings.
        settings: what is measured.
        folder: where streams and figures are kept.
        again: whether figures are made anew, on the kept streams.

    Raises:
        UserError: if its beliefs cannot be measured, or a method does not exist.
    """

    def __init__(self, path: Path, words: Sequence[str], settings: Settings, folder: Path, again: bool) -> None:
        self.path, self.chosen, self.again = path, settings, again
        self.run, self.config, self.family, self.trained = load_run(path)
        require_simulator(self.family)
        require_beliefs(path, self.family, self.trained)
        self.methods = methods_of(words, self.config)
        self.fingerprint = self.trained.fingerprint()
        self.changes = environment_changes(self.run, self.config, self.family)
        self.probe = ContextProbe(self.trained.beliefs()[0].numpy(), self.family.train)
        self.trials = settings.trials(self.family)
        self.seed = derive_seed(settings.seed, "belief benchmark", self.config.seed)  # runs must not share streams
        self.folder = make_folder(folder)
        self._streams: dict[str, Streams] = {}

    @property
    def total(self) -> int:
        """Steps of all streams, acted and followed."""
        count = len(self.methods)
        steps = {name: trial.steps for name, trial in self.trials.items()}
        followed = sum(steps[name] * (count + (name != "steady")) for name in steps if name in self.chosen.parts)
        acting = 1 + sum(one != self.config.online for one in self.methods.values())
        acted = acting * sum(steps[name] for name in RETURNED) if self.chosen.returns else 0
        return sum(steps.values()) + followed + acted

    def rows(self, on_step: OnStep) -> list[dict[str, Any]]:
        """A row for each method, one for the oracle-reset baseline, and one for the network."""
        common = {"family": self.config.family, "run": self.path.name, "seed": self.config.seed}
        found = [
            {**common, "method": name, "reference": self.reference(online), **self.row(online, on_step)}
            for name, online in self.methods.items()
            if set(self.chosen.parts) != {"network"}
        ]
        if set(self.chosen.parts) - {"network", "steady"}:
            found.append({**common, "method": ORACLE_RESET, **self.row(None, on_step)})
        if "network" in self.chosen.parts:
            found.append({**common, "method": None, "network": self.network(on_step)})
        return found

    def reference(self, online: OnlineConfig) -> str | None:
        """The method with the same belief and the Kalman update; None where the guide cannot be fitted so."""
        wanted = with_kalman(online)
        return next((name for name, one in self.methods.items() if one == wanted), None)

    def row(self, online: OnlineConfig | None, on_step: OnStep) -> dict[str, Any]:
        """The figures of one method, or of the oracle-reset baseline (None)."""
        row: dict[str, Any] = {}
        for name, trial in self.trials.items():
            if name in self.chosen.parts and (online is not None or name != "steady"):
                row[name] = self.figures(trial, online, on_step)
        if self.chosen.returns:
            row["return"] = {name: self.returns(self.trials[name], online, on_step) for name in RETURNED}
        if online is not None and "steady" in self.trials:
            row["update_ms"] = self.update_ms(online)
        return row

    def figures(self, trial: Trial, online: OnlineConfig | None, on_step: OnStep) -> Figures:
        """Of one method on a trial's streams."""

        def measure(group: AgentGroup) -> Figures:
            predicted = PREDICTED if trial.name == "steady" else 0
            found = follow(
                group,
                self.streams(trial, on_step),
                self.probe,
                trial.schedules,
                self.seed,
                predicted,
                reset=online is None,
                on_step=partial(on_step, 1),
            )
            figures: Figures = FIGURES[trial.name](trial, found, scale_of(self.family))
            return figures

        return self.kept(trial.name, trial, online, measure, lambda: on_step(trial.steps))

    def returns(self, trial: Trial, online: OnlineConfig | None, on_step: OnStep) -> list[float]:
        """Returns of a method that acts itself; the run's own did so in the streams."""
        if online == self.config.online:
            return self.streams(trial, on_step).returns

        def measure(group: AgentGroup) -> Figures:
            return {"each": self.act(trial, group, on_step, reset=online is None).returns}

        return list(self.kept(f"{trial.name}-return", trial, online, measure, lambda: on_step(trial.steps))["each"])

    def update_ms(self, online: OnlineConfig) -> float:
        """CPU time of one update of one belief in milliseconds, the median over the first steps of one stream."""
        trial = self.trials["steady"]

        def measure(_: AgentGroup) -> Figures:
            streams = self.streams(trial, lambda _: None).first(1, PREDICTED)
            group = self.group(online, trial, environments=1)
            found = follow(group, streams, self.probe, trial.schedules[:1], self.seed)
            return {"median": float(np.median(found.update_ms))}

        return float(self.kept("update", trial, online, measure, lambda: None)["median"])

    def network(self, on_step: OnStep) -> Figures:
        """The network's coverage of new episodes in the trained environments, and the dispersion of their guides."""
        rounds, agent = self.run.transitions(), self.trained.agents[0]
        trained_on = rounds[:-1] or rounds  # the last round was acted after the training
        new = self.streams(self.trials["known"], on_step).transitions()
        return {
            **network_coverage(agent, new),
            "dispersion": dispersion(agent, Transitions.concatenate(trained_on)),
        }

    def kept(
        self,
        name: str,
        trial: Trial,
        online: OnlineConfig | None,
        measure: Callable[[AgentGroup], Figures],
        on_kept: Callable[[], object],
    ) -> Figures:
        """What a method's beliefs about a trial's environments gave before, or give now."""
        followed = online or self.baseline
        settings = {**self.settings(trial), "online": repr(followed), "reset": online is None}
        file = kept_file(self.folder, name, settings, ".json")
        found = None if self.again else stored_result(file, settings, "figures")
        if found is None:
            found = measure(self.group(followed, trial))
            write_result(file, settings, "figures", found)
        else:
            on_kept()
        return dict(found)

    def streams(self, trial: Trial, on_step: OnStep) -> Streams:
        """The streams of a trial; acted by the run's own agent or at random, where they are not kept."""
        if trial.name not in self._streams:
            file = kept_file(self.folder, f"{trial.name}-streams", self.settings(trial), ".npz")
            if file.is_file():
                on_step(trial.steps)
            else:
                group = self.group(self.config.online, trial)
                self.act(trial, group, on_step, random=self.at_random(trial)).save(file)
            self._streams[trial.name] = Streams.load(file)
        return self._streams[trial.name]

    def act(
        self, trial: Trial, group: AgentGroup, on_step: OnStep, random: bool = False, reset: bool = False
    ) -> Streams:
        """Act in all environments of a trial."""
        return act(group, self.family, trial, self.seed, random, reset, partial(on_step, 1))

    def group(self, online: OnlineConfig, trial: Trial, environments: int | None = None) -> AgentGroup:
        """Fresh beliefs about a trial's environments, or about so many of them."""
        return group_for(load_run(self.path, online=online)[-1], self.family, trial.starts[:environments])

    def settings(self, trial: Trial) -> dict[str, Any]:
        """What decides the streams of a trial."""
        schedules = [one.changes for one in trial.schedules]
        values = {"network": self.fingerprint, "schedules": schedules, "begins": trial.begins, "steps": trial.steps}
        own: dict[str, Any] = {} if self.at_random(trial) else {"own": repr(self.config.online)}
        changed = {"environment": self.changes} if self.changes else {}  # streams of the training's are no longer its
        return {
            **values,
            "seed": self.seed,
            "acting": "random" if self.at_random(trial) else "replay",
            **own,
            **changed,
        }

    def at_random(self, trial: Trial) -> bool:
        """Whether a trial's actions are random: never where the network is judged, whose noise is that of its plans."""
        return self.chosen.acting == "random" and trial.name != "known"

    @property
    def baseline(self) -> OnlineConfig:
        """How the oracle-reset baseline's beliefs follow between the changes: recursive, by the run's own update."""
        return replace(self.config.online, belief="recursive", belief_config=RecursiveConfig())


def methods_of(words: Sequence[str], config: RunConfig) -> dict[str, OnlineConfig]:
    """The methods by name: those that were asked for, and each one's belief with the Kalman update, as a reference.

    Raises:
        UserError: if a word is none.
    """
    own = config.online
    found = {word: read_online(word, own) for word in words} or {online_word(own): own}
    for online in list(found.values()):
        reference = with_kalman(online)
        if reference not in found.values() and online_for(config.guide, reference) == reference:
            found[online_word(reference)] = reference
    return found


def with_kalman(online: OnlineConfig) -> OnlineConfig:
    """The same belief with the Kalman update."""
    return online if online.update == "kalman" else read_online(f"{online.belief}:kalman", online)


def require_beliefs(path: Path, family: Family, trained: AgentGroup) -> None:
    """Refuse runs without beliefs about numbers; raises :class:`UserError`."""
    if not family.numeric or len(trained.agents) > 1 or not trained.agents[0].belief_dim:
        raise UserError(
            f"{path}: only the beliefs of an agent that infers a latent, in a family with numeric parameters, can be "
            "measured against the truth"
        )
