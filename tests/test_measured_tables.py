"""Measured tables that no marker makes again have their numbers from tables that are made from recorded rows."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest

from pyro_dynamics.benchmarks.pages import BLOCK
from pyro_dynamics.rollouts.adaptation_summary import mean_width

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"
MADE = RESULTS / "reproduction/report.md"
"""The one page that is made whole from rows, which ``tests/test_results.py`` holds."""
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts)]
PAGES.remove(MADE)
TABLE = re.compile(r"^ *\|.*\n *\|[-:| ]+\|\n(?:^ *\|.*\n)*", re.MULTILINE)
NUMBER = r"[-+]?\d+(?:\.\d+)?"
BARE = re.compile(rf"{NUMBER}(?: ?%| m?s)?")
INTERVAL = re.compile(rf"{NUMBER} \+- {NUMBER}|\[{NUMBER}, {NUMBER}\]")


def cells_of(line: str) -> list[str]:
    """The cells of a row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def is_measured(table: str) -> bool:
    """Whether a column is right-aligned, a cell has an interval, or half of the cells beside the first are numbers."""
    rule, *lines = [cells_of(line) for line in table.splitlines()[1:]]
    cells = [cell for line in lines for cell in line[1:] if cell]
    bare = sum(BARE.fullmatch(cell) is not None for cell in cells)
    right = any(re.fullmatch(r"-+:", cell) for cell in rule)
    return right or any(INTERVAL.search(cell) for cell in cells) or (bare > 1 and 2 * bare >= len(cells))


def made_cells(page: Path) -> set[str]:
    """All cells of a page that are made from rows."""
    text = page.read_text()
    parts = [text] if page == MADE else [block["body"] for block in BLOCK.finditer(text)]
    return {
        cell for part in parts for table in TABLE.findall(part) for row in table.splitlines() for cell in cells_of(row)
    }


def without_rows(page: Path, text: str) -> list[str]:
    """The numeric cells of a page's measured tables that stand in no made table of the pages that its section links to.

    A section begins at a heading. A cell is numeric if a number is the first thing in it.
    """
    found = []
    for section in re.split(r"^(?=#+ )", BLOCK.sub("", text), flags=re.MULTILINE):
        links = [(page.parent / link).resolve() for link in re.findall(r"\]\(([^()#\s]+\.md)", section)]
        made = set().union(made_cells(page), *(made_cells(link) for link in links if link.is_file()))
        for table in filter(is_measured, TABLE.findall(section)):
            numeric = [cell for row in table.splitlines()[2:] for cell in cells_of(row) if re.match(NUMBER, cell)]
            found += [cell for cell in numeric if cell not in made]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_number_of_a_measured_table_has_rows(page: Path) -> None:
    assert without_rows(page, page.read_text()) == []


README = PAGES[0].read_text()
FIRST_RUNS = RESULTS / "first-runs"


def printed(after: str) -> list[list[str]]:
    """The words of each line of the first indented block of the README after some text."""
    found = re.search(r"(?:^    .*\n)+", README[README.index(after) :], re.MULTILINE)
    assert found is not None
    return [line.split() for line in found[0].splitlines()]


def test_what_the_readme_has_of_a_training_is_that_of_its_rows() -> None:
    rows = json.loads((FIRST_RUNS / "pendulum.json").read_text())["rows"]
    (run,) = [row for row in rows if row["command"] == "train --seed 0"]
    returns: dict[float, list[float]] = {}
    for line in run["metrics"]:
        returns.setdefault(line["context"], []).append(line["return"])
    head, *lines = printed("/pyro-dynamics train\n```")
    assert head[-4:] == ["random", "round", "2", "best"]
    of_rows = [
        [f"{context:g}", *(f"{r:.1f}" for r in (all_[0], all_[2], max(all_)))] for context, all_ in returns.items()
    ]
    assert lines == of_rows


def test_what_was_printed_of_an_adaptation_is_that_of_its_steps() -> None:
    """But for beliefs between the ends of two contexts, whose draws were not kept."""
    steps = [json.loads(line) for line in (FIRST_RUNS / "adapt/steps.jsonl").read_text().splitlines()]
    ends = {
        entry["step"]: entry["words"] for entry in json.loads((FIRST_RUNS / "adapt/summary.json").read_text())["belief"]
    }
    text = (FIRST_RUNS / "adapt/printed.txt").read_text()
    lines = re.findall(r"^ +(\d+)(?: to (\d+))? +(\d) +(\S+) +(\S+)% +(\S+)  (gravity .*)$", text, re.MULTILINE)
    assert sum(1 + int(last or first) - int(first) for first, last, *_ in lines) == len(steps) == 200
    for first, last, context, reward, coverage, width, words in lines:
        rows = steps[int(first) : int(last or first) + 1]
        assert {row["context"] for row in rows} == {float(context)}
        assert float(reward) == pytest.approx(mean(row["reward"] for row in rows), abs=0.0051)
        assert coverage == f"{100 * mean(row['coverage'] for row in rows):.0f}"
        assert width == f"{mean_width(rows):.2g}"
        assert ends.get(rows[-1]["step"], words).startswith(words)


def test_what_the_readme_has_of_an_adaptation_was_printed() -> None:
    recorded = [line.split() for line in (FIRST_RUNS / "adapt/printed.txt").read_text().splitlines()]
    lines = printed("pyro-dynamics adapt runs/pendulum-gravity-latent-quick-0\n```")
    assert len(lines) > 3
    assert all(line in recorded for line in lines)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("| a | b |\n|---|--:|\n| x | 3.1 |\n", ["3.1"]),
        ("| a | b |\n|---|---|\n| x | 3 +- 1 |\n", ["3 +- 1"]),
        ("| a | b |\n|---|---|\n| x | score 3 [1, 4] |\n| y | 5 |\n", ["5"]),
        ("| a | b | c |\n|---|---|---|\n| 7 | 3 | -5 |\n", ["7", "3", "-5"]),
        ("    | a | b |\n    |---|---|\n    | x | 3 % |\n    | y | 4 ms |\n", ["3 %", "4 ms"]),
        (
            "[b](docs/results/cadm.md)\n\n| a | b |\n|---|--:|\n| x | -280.9 +- 2.6 |\n| y | -281 +- 3 |\n",
            ["-281 +- 3"],
        ),
        ("[b](docs/results/cadm.md)\n\n# Other\n\n| a | b |\n|---|--:|\n| x | -280.9 +- 2.6 |\n", ["-280.9 +- 2.6"]),
        (
            "<!-- begin: pyro-dynamics benchmark cadm --report x -->\n| a | b |\n|---|--:|\n| x | 3 |\n<!-- end -->\n",
            [],
        ),
        ("| setting | value |\n|---|---|\n| members | 5 |\n| layers | 3 x 128 |\n| step | 0.05 s, skip 5 |\n", []),
    ],
)
def test_numbers_without_rows_are_found(text: str, found: list[str]) -> None:
    assert without_rows(ROOT / "README.md", text) == found
