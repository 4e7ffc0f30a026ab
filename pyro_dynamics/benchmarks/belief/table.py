"""The table of a family: a line for each measure, a column for each method, intervals over runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_dynamics.benchmarks.belief.measures import capped, half_width
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

ORACLE_RESET = "oracle-reset"
"""The method's name of the reference whose belief returns to the prior when the truth changes."""
Value = float | Sequence[float] | None
"""A figure of one run: a number, one for each of its streams, or nothing."""


@dataclass(frozen=True)
class Compared:
    """A run's row of one method, with that run's rows of the references; empty where there is none.

    Attributes:
        row: of the method.
        reset: of the oracle reset.
        kalman: of the same belief with the Kalman update.
        first: of the first method.
    """

    row: Row
    reset: Row
    kalman: Row
    first: Row


@dataclass(frozen=True)
class Line:
    """One measure.

    Attributes:
        words: what it is.
        aim: what it should be.
        value: of one run.
        form: how it is written.
    """

    words: str
    aim: str
    value: Callable[[Compared], Value]
    form: str


def _at(row: Row, *path: str) -> Any:
    """What a row has there, None if it was not measured."""
    found: Any = row
    for key in path:
        found = None if found is None else found.get(key)
    return found


def _figure(*path: str) -> Callable[[Compared], Value]:
    return lambda of: _at(of.row, *path)


def _rms(*path: str) -> Callable[[Compared], Value]:
    def value(of: Compared) -> Value:
        squares = _at(of.row, *path)
        return None if squares is None else float(np.sqrt(np.mean(squares)))

    return value


def _difference(reference: str, *path: str) -> Callable[[Compared], Value]:
    def value(of: Compared) -> Value:
        one, other = _at(of.row, *path), _at(getattr(of, reference), *path)
        itself = of.row is getattr(of, reference)
        return None if one is None or other is None or itself else np.subtract(one, other).tolist()

    return value


def recovery(row: Row, part: str = "change", *path: str) -> list[int] | None:
    """Steps of each stream, where never counts as all the steps that were left; None where it was not measured."""
    steps = _at(row, part, *(path or ("steps",)))
    return None if steps is None else capped(steps, row[part]["left"])


def _ratio(one: Sequence[float] | None, other: Sequence[float] | None) -> float | None:
    return None if one is None or other is None else float(np.mean(one) / np.mean(other))


def _visits(group: str) -> Callable[[Compared], Value]:
    return lambda of: _ratio(*(recovery(of.row, "recall", group, visit) for visit in ("second", "first")))


PERCENT, TWO, STEPS = "{:.0%}", "{:.2f}", "{:.1f}"
LINES = (
    Line(
        "decoded truth in the 90 % interval, unseen contexts",
        "85 to 95 %",
        _figure("steady", "inside", "coverage"),
        PERCENT,
    ),
    Line("the same outside of the trained range", "", _figure("steady", "outside", "coverage"), PERCENT),
    Line("width of that interval / trained range", "", _figure("steady", "inside", "width"), "{:.3f}"),
    Line("error of the decoded mean / trained range", "", _figure("steady", "inside", "error"), "{:.3f}"),
    Line("disagreement of two episodes: latent, rms z", "0.8 to 1.2", _rms("steady", "z2_latent"), TWO),
    Line("the same, decoded", "0.8 to 1.2", _rms("steady", "z2_decoded"), TWO),
    Line("log predictive of 40 steps, nats", "", _figure("steady", "log_predictive"), "{:.1f}"),
    Line("the same less kalman's", "within 1", _difference("kalman", "steady", "log_predictive"), "{:+.2f}"),
    Line("the same less that of the first method", "", _difference("first", "steady", "log_predictive"), "{:+.2f}"),
    Line("after a change: steps to 90 % of the way to the truth", "", lambda of: recovery(of.row), STEPS),
    Line(
        "the same / oracle reset's",
        "at most 1.2",
        lambda of: None if of.row is of.reset else _ratio(recovery(of.row), recovery(of.reset)),
        TWO,
    ),
    Line("truth in the 90 % interval at the end", "85 to 95 %", _figure("change", "end_coverage"), PERCENT),
    Line("error at the end / size of the change", "", _figure("change", "end_error"), TWO),
    Line(
        "recall, unseen contexts: steps at the first visit",
        "",
        lambda of: recovery(of.row, "recall", "unseen", "first"),
        STEPS,
    ),
    Line("second visit / first", "at most 0.5", _visits("unseen"), TWO),
    Line(
        "recall, trained contexts: steps at the first visit",
        "",
        lambda of: recovery(of.row, "recall", "trained", "first"),
        STEPS,
    ),
    Line("second visit / first", "at most 0.5", _visits("trained"), TWO),
    Line("return less oracle reset's, with a change", "", _difference("reset", "return", "change"), "{:+.1f}"),
    Line("return less oracle reset's, without", "", _difference("reset", "return", "stay"), "{:+.1f}"),
    Line("CPU time of one update, ms", "", _figure("update_ms"), "{:.1f}"),
)


def table_of(rows: Sequence[Row]) -> str:
    """As Markdown: for each setup, whose runs are its seeds, a table of its methods and one of its networks."""
    setups = dict.fromkeys(row["setup"] for row in rows)
    return "\n\n".join(_setup(name, [row for row in rows if row["setup"] == name]) for name in setups)


def _setup(name: str, rows: Sequence[Row]) -> str:
    of_methods = [row for row in rows if row["method"] is not None]
    methods, runs = (list(dict.fromkeys(row[key] for row in of_methods)) for key in ("method", "run"))
    by = {(row["run"], row["method"]): row for row in of_methods}

    def compared(run: str, method: str) -> Compared:
        row = by.get((run, method), {})
        return Compared(row, *(by.get((run, one), {}) for one in (ORACLE_RESET, row.get("reference"), methods[0])))

    lines = []
    for line in LINES:
        found = [[line.value(compared(run, method)) for run in runs] for method in methods]
        if any(value is not None for values in found for value in values):
            lines.append([line.words, line.aim, *(cell(values, line.form) for values in found)])
    count = len({row["run"] for row in rows})
    title = f"{name}, {count} run{'' if count == 1 else 's'}"
    parts = [markdown_table([title, "aim", *methods], lines, words=2)] if lines else []
    network = [row["network"] for row in rows if "network" in row]
    return "\n\n".join([*parts, *([network_table(title, network)] if network else [])])


def cell(values: Sequence[Value], form: str) -> str:
    """Mean over runs +- half the width of its 95 % interval, which is over the streams of a single run."""
    found = [value for value in values if value is not None]
    if not found:
        return ""
    means = [float(np.mean(value)) for value in found]
    half = half_width(means if len(found) > 1 else np.ravel(found[0]).tolist())
    return form.format(np.mean(means)) + ("" if half is None else f" +- {form.replace('+', '').format(half)}")


def network_table(title: str, found: Sequence[dict[str, Any]]) -> str:
    """The network's own intervals by target, the means over runs, and the width of all trained guides.

    Args:
        title: what the networks are of.
        found: of each run, as it was measured.
    """
    mixture = np.mean([one["mixture"] for one in found], 0)
    members = np.mean([np.mean(one["members"], 0) for one in found], 0)
    lines = [
        ["network's own 90 % intervals on held-out episodes: each target", "87 to 93 %", _range(mixture, PERCENT)],
        ["the same of single members, the mean over members", "", _range(members, PERCENT)],
    ]
    ratios = [np.ravel(one["dispersion"]) for one in found if one["dispersion"] is not None]
    if ratios:
        words = "sd of trained guides / the best of their family"
        lines.append([words, "0.9 to 1.1", _range(np.concatenate(ratios), TWO)])
    return markdown_table([title, "aim", "least to most"], lines, words=2)


def _range(values: np.ndarray, form: str) -> str:
    return f"{form.format(values.min())} to {form.format(values.max())}"
