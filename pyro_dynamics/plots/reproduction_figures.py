"""The paper's figures of returns: while learning, in new environments, and in one that changes.

One colour an agent in all of them. Shaded regions and bars are 95 % intervals of the mean, from 500 bootstraps over
seeds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from xarray import DataArray

from pyro_dynamics.plots.style import STYLE, Png, png
from pyro_dynamics.reproduction.aggregate import band
from pyro_dynamics.reproduction.results import TRUE_DYNAMICS
from pyro_dynamics.reproduction.score_rows import (
    AGENTS,
    Row,
    Scores,
    all_checkpoints,
    by_seed,
    seed_gains,
)

COLOURS = dict(zip(AGENTS, ("C0", "C1", "C2", "C3", "C4", "C5", "C6", "C9", "black"), strict=True))
ROUNDS = "round (one episode in each environment)"
SCORE = "score (0: random policy,\n1: best mean)"


def learning_normalised(rows: Sequence[Row], family: str) -> Png:
    """Score of an episode, mean over the training environments, by round (the paper's Fig. 2a)."""
    scores = Scores(rows, family)
    reference = scores.best("train")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5, 4.8), layout="constrained")
        panel = figure.subplots()
        for agent in scores.agents("train"):
            curve = by_seed(scores.normalised(scores.returns(agent, "train"), reference))
            _curve(panel, agent, curve.values, f"{agent} ({_seeds(curve)})")
        _mark_checkpoints(panel, scores)
        panel.set(xlabel=ROUNDS, ylabel=SCORE.replace("\n", " "))
        return _finish(figure, panel)


def learning_by_environment_normalised(rows: Sequence[Row], family: str, axis: str = "context") -> Png:
    """Return of an episode in each training environment by round, with the specialist's final mean as 1 (Fig. 2b)."""
    scores = Scores(rows, family)
    reference = scores.specialist()
    curves = {agent: scores.normalised(scores.returns(agent, "train"), reference) for agent in scores.agents("train")}
    return _by_environment(scores, curves, axis, "score (0: random policy,\n1: specialist)")


def learning_by_environment(rows: Sequence[Row], family: str, axis: str = "context") -> Png:
    """Return of an episode in each training environment by round (the paper's appendix)."""
    scores = Scores(rows, family)
    curves = {agent: scores.returns(agent, "train") for agent in scores.agents("train")}
    return _by_environment(scores, curves, axis, "return of an episode", scores.random)


def dynamic(rows: Sequence[Row], family: str) -> Png:
    """Return of each episode of learning online in the changing environment, a panel for each checkpoint (Fig. 3)."""
    scores = Scores(rows, family)
    checkpoints, agents = scores.checkpoints("dynamic"), scores.agents("dynamic")
    schedules = ", ".join(scores.contexts("dynamic"))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.5 + 3.6 * max(1, len(checkpoints)), 4.4), layout="constrained")
        panels = figure.subplots(1, max(1, len(checkpoints)), sharey=True, squeeze=False)[0]
        for panel, checkpoint in zip(panels, checkpoints, strict=False):
            for shift, agent in zip(_shifts(len(agents), 0.4), agents, strict=True):
                centre, low, high = band(by_seed(scores.returns(agent, "dynamic", checkpoint)).values)
                _points(panel, np.arange(1, len(centre) + 1) + shift, centre, low, high, agent, line="-")
            for base in (scores.random[name] for name in scores.contexts("dynamic") if name in scores.random):
                panel.axhline(base, color="grey", ls=":", lw=1.5, label="random policy")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
            panel.set(xlabel="episode of online learning", title=f"after {checkpoint} rounds")
        panels[0].set(ylabel="return of an episode")
        figure.supxlabel(f"within each episode the environment changes, after as many steps: {schedules}", fontsize=11)
        return _finish(figure, panels[0])


def final_scores(rows: Sequence[Row], family: str, axis: str = "context") -> Png:
    """Score of the last episode in each test context, a panel for each checkpoint (the paper's Fig. 3, bottom)."""
    return _final(Scores(rows, family), "test", axis)


def ablation(rows: Sequence[Row], family: str, axis: str = "context", reference: str | None = None) -> Png:
    """The same for models trained on two environments only (the paper's appendix).

    Args:
        rows: of scores.
        family: the one trained on two environments.
        axis: name and unit of the hidden parameter.
        reference: the family whose random episodes give the scale, where ``family`` has none.
    """
    return _final(Scores(rows, family, reference), "ablation", axis)


def gain_by_influence(
    rows: Sequence[Row],
    influence: Mapping[str, float],
    axis: str = "share of the next step's variance that the hidden parameter explains",
) -> Png:
    """What the latent gains over the generalist in new contexts of each family, by how much there is to know.

    Args:
        rows: of scores.
        influence: of each family, a number.
        axis: what the number is, with its unit.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 4.8), layout="constrained")
        panel = figure.subplots()
        for index, (family, amount) in enumerate(sorted(influence.items(), key=lambda item: item[1])):
            scores = Scores(rows, family)
            gains = seed_gains(scores, scores.new, max(scores.checkpoints(scores.new), default=None)).values
            if not gains.size:
                continue
            colour = f"C{index}"
            panel.plot(np.full(len(gains), amount), gains, "o", color=colour, alpha=0.4, mew=0)
            centre, low, high = band(gains)
            panel.errorbar(amount, centre, _reach(centre, low, high), color=colour, fmt="D", capsize=5, label=family)
        panel.axhline(0, color="black", lw=1)
        amounts = panel.dataLim.intervalx
        if 0 < amounts[0] < amounts[1] / 20 < np.inf:
            panel.set_xscale("log")
        panel.margins(x=0.1)
        panel.set(xlabel=axis, ylabel="score of latent minus generalist\n(diamonds: mean over seeds)")
        return _finish(figure, panel, "outside right upper")


def _by_environment(
    scores: Scores,
    curves: Mapping[str, DataArray],
    axis: str,
    ylabel: str,
    levels: Mapping[str, float] | None = None,
) -> Png:
    contexts = list(scores.contexts("train"))
    across = min(3, max(1, len(contexts)))
    down = max(1, math.ceil(len(contexts) / across))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.3 * across, 0.6 + 3.1 * down), layout="constrained")
        panels = figure.subplots(down, across, sharex=True, sharey=levels is None, squeeze=False)
        for panel in panels.flat[len(contexts) :]:
            panel.remove()
        for index, (panel, context) in enumerate(zip(panels.flat, contexts, strict=False)):
            for agent, curve in curves.items():
                if context in curve["context"].values:
                    _curve(panel, agent, curve.sel(context=context).values, agent)
            if levels and context in levels:
                panel.axhline(levels[context], color="grey", ls=":", lw=1.5, label="random policy")
            _mark_checkpoints(panel, scores)
            panel.tick_params(labelbottom=True)
            panel.set(title=f"{axis}: {context}", ylabel=ylabel if index % across == 0 else None)
            if index + across >= len(contexts):
                panel.set(xlabel="round")
        return _finish(figure, panels[0, 0])


def _final(scores: Scores, split: str, axis: str) -> Png:
    """Final scores by context and, as the last group, their mean: a panel for each checkpoint."""
    checkpoints, agents = scores.checkpoints(split), scores.agents(split)
    left_out = scores.unscaled(split)
    contexts = [context for context in scores.contexts(split) if context not in left_out]
    with matplotlib.rc_context(STYLE):
        count = max(1, len(checkpoints))
        figure = Figure(figsize=(max(7.5, 1.6 + 1.05 * (len(contexts) + 1)), 0.9 + 2.7 * count), layout="constrained")
        panels = figure.subplots(count, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for panel, checkpoint in zip(panels, checkpoints, strict=False):
            for shift, agent in zip(_shifts(len(agents)), agents, strict=True):
                found = scores.scores(agent, split, checkpoint)
                centre, low, high = np.concatenate([band(found.values), band(by_seed(found).values)[:, None]], 1)
                _points(panel, np.arange(len(centre)) + shift, centre, low, high, agent)
            panel.axvline(len(contexts) - 0.5, color="black", lw=0.8)
            panel.axhline(0, color="grey", ls=":", lw=1.5, label="random policy")
            panel.set(ylabel=SCORE, title=f"after {checkpoint} rounds")
            panel.set_xticks(range(len(contexts) + 1), [*contexts, "mean"])
            panel.set_xlim(-0.5, len(contexts) + 0.5)
            panel.grid(axis="x", visible=False)
        panels[-1].set(xlabel=axis + (f"; without a scale: {', '.join(left_out)}" if left_out else ""))
        return _finish(figure, panels[0])


def _curve(panel: Axes, agent: str, runs: np.ndarray, label: str) -> None:
    """Mean over runs ``[S, M]`` by round, and its interval; a line across of an agent that learns nothing."""
    centre, low, high = band(runs)
    if agent == TRUE_DYNAMICS:
        panel.axhline(centre[0], color=COLOURS[agent], ls="-.", lw=1.5, label=label)
        return
    rounds = np.arange(len(centre))
    marker = "." if len(centre) == 1 else ""
    panel.plot(rounds, centre, color=COLOURS.get(agent, "C7"), lw=2, marker=marker, label=label)
    panel.fill_between(rounds, low, high, color=COLOURS.get(agent, "C7"), alpha=0.2, lw=0)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _points(
    panel: Axes, x: np.ndarray, centre: np.ndarray, low: np.ndarray, high: np.ndarray, agent: str, line: str = ""
) -> None:
    panel.errorbar(
        x,
        centre,
        _reach(centre, low, high),
        color=COLOURS.get(agent, "C7"),
        marker="o",
        ms=5,
        ls=line,
        lw=1.8,
        capsize=3,
        label=agent,
    )


def _reach(centre: Any, low: Any, high: Any) -> np.ndarray:
    """How far an interval goes to both sides, ``[2, n]``: not at all where there is none."""
    return np.nan_to_num(np.array([centre - low, high - centre]).reshape(2, -1))


def _shifts(count: int, width: float = 0.6) -> np.ndarray:
    """Where ``count`` agents stand beside one another."""
    return (np.arange(count) - (count - 1) / 2) * width / max(count, 1)


def _mark_checkpoints(panel: Axes, scores: Scores) -> None:
    for checkpoint in all_checkpoints(scores):
        panel.axvline(checkpoint, color="black", ls="--", lw=1, alpha=0.6)


def _seeds(curve: DataArray) -> str:
    count = curve.sizes["seed"]
    return "1 seed" if count == 1 else f"{count} seeds"


def _finish(figure: Figure, panel: Axes, place: str = "outside upper center") -> Png:
    """The figure with one legend, beside the panels so that it covers nothing."""
    handles, labels = panel.get_legend_handles_labels()
    # Agents first, whatever they are drawn with, and the random policy last.
    entries = sorted(zip(labels, handles, strict=True), key=lambda entry: entry[0] == "random policy")
    if entries:
        columns = 1 if "right" in place else min(len(entries), int(figure.get_figwidth() / 1.9))
        figure.legend(
            [handle for _, handle in entries],
            [label for label, _ in entries],
            loc=place,
            ncols=columns,
            frameon=False,
        )
    return png(figure)
