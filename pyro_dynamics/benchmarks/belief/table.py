"""The table of a family: a line for each measure, a column for each method, intervals over runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_dynamics.benchmarks.belief.measures import capped, half_width, mean_and_error
from pyro_dynamics.benchmarks.recording import Row
from pyro_dynamics.io.tables import markdown_table

ORACLE_RESET = "oracle-reset"


@dataclass(frozen=True)
class Line:
    """One measure.

    Attributes:
        words: what it is.
        aim: what is aimed at.
        value: of one run's row, given that run's row of the oracle reset and of the Kalman update; None where it was
            not measured.
        form: how it is written.
    """

    words: str
    aim: str
    value: Callable[[Row, Row, Row], float | None]
    form: str = "{:.2f}"


def _mean(*path: str) -> Callable[[Row, Row, Row], float | None]:
    def value(row: Row, _: Row, __: Row) -> float | None:
        found: Any = row
        for key in path:
            found = (found or {}).get(key)
        return None if found is None else float(np.mean(found))

    return value


def _rms(name: str) -> Callable[[Row, Row, Row], float | None]:
    def value(row: Row, _: Row, __: Row) -> float | None:
        found = row.get("steady", {}).get(name)
        return None if found is None else float(np.sqrt(np.mean(found)))

    return value


def less_kalman(row: Row, _: Row, kalman: Row) -> float | None:
    """Log predictive density of a stream less that by the Kalman update, the mean over streams."""
    both = [one.get("steady", {}).get("log_predictive") for one in (row, kalman)]
    return None if None in both else float(np.mean(np.subtract(*both)))


def recovery(row: Row, _: Row, __: Row) -> float | None:
    """Steps to recover, where never counts as all steps that were left."""
    found = row.get("change")
    return None if found is None else float(np.mean(capped(found["steps"], found["left"])))


def _ratio(row: Row, reset: Row, kalman: Row) -> float | None:
    one, other = recovery(row, reset, kalman), recovery(reset, reset, kalman)
    return None if one is None or other is None else one / other


def _visit(group: str, which: str) -> Callable[[Row, Row, Row], float | None]:
    def value(row: Row, _: Row, __: Row) -> float | None:
        found = row.get("recall")
        return None if found is None else float(np.mean(capped(found[group][which], found["left"])))

    return value


def _visits(group: str) -> Callable[[Row, Row, Row], float | None]:
    def value(row: Row, *others: Row) -> float | None:
        second, first = (_visit(group, which)(row, *others) for which in ("second", "first"))
        return None if first is None or second is None else second / first

    return value


def _less_reset(group: str) -> Callable[[Row, Row, Row], float | None]:
    def value(row: Row, reset: Row, _: Row) -> float | None:
        both = [one.get("return", {}).get(group) for one in (row, reset)]
        return None if None in both else float(np.mean(np.subtract(*both)))

    return value


PERCENT = "{:.0%}"
LINES = (
    Line(
        "decoded truth in the 90 % interval, unseen contexts",
        "85 to 95 %",
        _mean("steady", "inside", "coverage"),
        PERCENT,
    ),
    Line("the same, outside of the trained range", "", _mean("steady", "outside", "coverage"), PERCENT),
    Line("width of the interval (share of the trained range)", "", _mean("steady", "inside", "width")),
    Line("error of the decoded mean (the same)", "", _mean("steady", "inside", "error")),
    Line("disagreement of two episodes, latent (rms z)", "0.8 to 1.2", _rms("z2_latent")),
    Line("the same, decoded", "0.8 to 1.2", _rms("z2_decoded")),
    Line("log predictive less kalman's (nats in 40 steps)", "within 1", less_kalman, "{:+.2f}"),
    Line("steps to 90 % of a change, to the truth", "", recovery, "{:.0f}"),
    Line("the same over oracle reset's", "at most 1.2", _ratio),
    Line("end state in the 90 % interval", "85 to 95 %", _mean("change", "end_coverage"), PERCENT),
    Line("error at the end (share of the change)", "", _mean("change", "end_error")),
    Line("steps at the first visit, unseen contexts", "", _visit("unseen", "first"), "{:.0f}"),
    Line("second visit over first, unseen contexts", "at most 0.5", _visits("unseen")),
    Line("steps at the first visit, trained contexts", "", _visit("trained", "first"), "{:.0f}"),
    Line("second visit over first, trained contexts", "at most 0.5", _visits("trained")),
    Line("return less oracle reset's, with a change", "", _less_reset("change"), "{:+.1f}"),
    Line("return less oracle reset's, without", "", _less_reset("stay"), "{:+.1f}"),
    Line("CPU time of one update (ms)", "", _mean("update_ms"), "{:.1f}"),
)


def table(rows: Sequence[Row]) -> str:
    """As Markdown, a heading and a table for each family."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    return "\n\n".join(_family(name, [row for row in rows if row["family"] == name]) for name in families)


def _family(name: str, rows: Sequence[Row]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows if row["method"]))
    by = {(row["run"], row["method"]): row for row in rows}
    runs = list(dict.fromkeys(row["run"] for row in rows))
    lines = []
    for line in LINES:
        cells = []
        for method in methods:
            kalman = f"{method.split(':')[0]}:kalman"
            values = [
                line.value(by.get((run, method), {}), by.get((run, ORACLE_RESET), {}), by.get((run, kalman), {}))
                for run in runs
            ]
            cells.append(cell([one for one in values if one is not None], line.form))
        if any(cells):
            lines.append([line.words, line.aim, *cells])
    head = [f"{name}, {len(runs)} run{'s' if len(runs) > 1 else ''}", "aim", *methods]
    parts = [markdown_table(head, lines, words=2)] if lines else []
    network = [row["network"] for row in rows if "network" in row]
    return "\n\n".join([*parts, *([_network(name, network)] if network else [])])


def cell(values: Sequence[float], form: str) -> str:
    """Mean over runs, with half the width of its interval."""
    if not values:
        return ""
    mean, _ = mean_and_error(values)
    half = half_width(values)
    return form.format(mean) + ("" if half is None else f" +- {form.replace('+', '').format(half)}")


def _network(name: str, found: Sequence[dict[str, Any]]) -> str:
    """The network's own intervals, and the width of the guides: the range over targets, members and runs."""
    mixture = np.mean([one["mixture"] for one in found], 0)
    members = np.mean([np.mean(one["members"], 0) for one in found], 0)
    lines = [
        ["the network's own 90 % intervals, each target", "87 to 93 %", _range(mixture, PERCENT)],
        ["the same of single members", "", _range(members, PERCENT)],
    ]
    ratios = [np.ravel(one["dispersion"]) for one in found if one["dispersion"] is not None]
    if ratios:
        lines.append(
            [
                "sd of trained guides over the best of their family",
                "0.9 to 1.1",
                _range(np.concatenate(ratios), "{:.2f}"),
            ]
        )
    return markdown_table([name, "aim", "least to most"], lines, words=2)


def _range(values: np.ndarray, form: str) -> str:
    return f"{form.format(values.min())} to {form.format(values.max())}"
