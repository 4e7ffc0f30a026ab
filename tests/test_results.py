"""The pages of results show what their recorded rows say, and nothing else."""

import re
from pathlib import Path

import pytest

from pyro_dynamics.benchmarks.pages import commands, renew
from pyro_dynamics.reports.report import to_markdown
from pyro_dynamics.runners.benchmark import BENCHMARKS, report
from pyro_dynamics.runners.benchmarks import reproduction

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results"
PAGES = sorted(
    page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts and commands(page.read_text())
)


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tables_of_a_page_are_those_of_its_rows(page: Path) -> None:
    text = page.read_text()
    assert renew(text, report) == text, f"pyro-dynamics benchmark pages {page.relative_to(ROOT)}"


def test_every_subject_has_a_page_with_rows() -> None:
    subjects = {
        "reproduction",
        "ceiling",
        "cadm",
        "neural-fly",
        "belief",
        "tracking",
        "speed",
        "reliability",
        "accuracy",
        "collapse",
        "planners",
        "guides",
        "first-runs",
        "halfcheetah-tilt",
        "dead-actuator",
    }
    assert subjects | {"index"} <= {page.stem for page in PAGES if page.parent == RESULTS}


@pytest.mark.slow  # it draws every figure; the claims are held by the test of the page
def test_the_reports_text_is_that_of_its_rows() -> None:
    (recording,) = reproduction.read(RESULTS / "reproduction")
    made = to_markdown(reproduction.report_of(recording), "figures")
    assert made == (RESULTS / "reproduction/report.md").read_text()


def test_all_recorded_rows_are_shown_somewhere() -> None:
    shown = {word for page in PAGES for words in commands(page.read_text()) for word in words}
    for file in RESULTS.glob("*/*.json"):
        if '"benchmark":' in file.read_text()[:80]:
            name = str(file.relative_to(ROOT))
            assert name in shown or str(file.parent.relative_to(ROOT)) in shown, f"no page shows {name}"


def test_commands_of_benchmarks_on_the_pages_exist() -> None:
    for page in RESULTS.glob("*.md"):
        for name in re.findall(r"pyro-dynamics benchmark ([a-z-]+)", page.read_text()):
            assert name in BENCHMARKS, f"{page.name}: {name}"
