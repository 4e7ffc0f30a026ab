"""An adaptation while it runs, for people: a line for several steps at a time."""

from typing import Any

import numpy as np

from pyro_dynamics.agent_group import AgentGroup
from pyro_dynamics.diagnostics.stream.reference import SHORT
from pyro_dynamics.environments import Family
from pyro_dynamics.environments.context_text import label
from pyro_dynamics.io.tables import decimal
from pyro_dynamics.rollouts.adaptation_summary import decoded_words, describe, mean_width

COVERED = "network's 90 % covers"
"""Head of the share of what was observed that lay in the network's own 90 % interval: it hardly knows the belief."""
WIDTH = "width for 90 %"
"""Head of the factor on the width of those intervals with which they cover 90 %."""
LINES = 10
"""Of a run, beside those at changes."""


class SummaryLines:
    """Makes a line of every so many steps, and one where the context changes or the belief finds that it has changed.

    A context that stays for fewer than five steps changes all the time, and makes no line of its own.

    Args:
        trained: the trained agents.
        family: their environments.
        steps: of the stream.
        every: steps in a line; by default a tenth of all.
    """

    def __init__(self, trained: AgentGroup, family: Family, steps: int, every: int | None = None) -> None:
        self.trained, self.family = trained, family
        self.every = every or max(1, -(-steps // LINES))
        self._rows: list[dict[str, Any]] = []  # of the line that is being made
        self._draws: np.ndarray | None = None
        self._same = 0  # steps since the context last changed

    @property
    def head(self) -> str:
        """What the columns are."""
        return f"{'steps':>11} {self.family.axis:>20} {'reward':>8} {COVERED} {WIDTH}  belief at the end of these steps"

    def add(self, row: dict[str, Any], draws: np.ndarray, changed: bool) -> list[str]:
        """Take a step; returns the lines that it completes.

        Args:
            row: a line of ``steps.jsonl``.
            draws: of the belief after the step, ``[S, d]``.
            changed: whether the belief found that the environment has changed.
        """
        lines = []
        other = bool(self._rows) and row["context"] != self._rows[-1]["context"]
        if other and self._same >= SHORT:
            lines += self.rest()
        self._same = 1 if other else self._same + 1
        self._rows.append(row)
        self._draws = draws
        if changed or len(self._rows) >= self.every:
            lines += self.rest(f"; change found at step {row['step']}" if changed else "")
        return lines

    def rest(self, note: str = "") -> list[str]:
        """The line of the steps that are in none yet, if there are any."""
        if not self._rows:
            return []
        rows, self._rows = self._rows, []
        first, last = rows[0]["step"], rows[-1]["step"]
        steps = str(first) if first == last else f"{first} to {last}"
        reward, coverage = (np.mean([row[key] for row in rows]) for key in ("reward", "coverage"))
        numbers = f"{decimal(reward, 2):>8} {coverage:>{len(COVERED)}.0%} {mean_width(rows):>{len(WIDTH)}.2g}"
        return [f"{steps:>11} {label(rows[-1]['context']):>20} {numbers}  {self._words(rows[-1])}{note}".rstrip()]

    def _words(self, row: dict[str, Any]) -> str:
        """What is believed after a step; nothing of an agent that infers nothing."""
        if not row["mean"]:
            return ""
        entry = describe(row, self.trained, self.family, self._draws)
        if "decoded" not in entry:
            return str(entry["words"])
        return decoded_words(self.family, *entry["decoded_quantiles"])
