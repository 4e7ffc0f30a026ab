"""What the README shows works as it stands, and it stays an entrance."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyro_dynamics.version import __version__

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def block(start: str, language: str) -> str:
    """The first block of a language after ``start``."""
    found = re.search(rf"```{language}\n(.*?)```", README[README.index(start) :], re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.slow
def test_the_quickstart_runs_as_it_stands(tmp_path: Path) -> None:
    """In a process of its own, so that it begins with nothing imported."""
    done = subprocess.run(
        [sys.executable, "-c", block("## In Python", "python")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    value = re.search(r"gravity (\d+\.\d+) m/s\^2 \(90 ?%: \d+\.\d+ to \d+\.\d+\)", done.stdout)
    assert value is not None, done.stdout
    assert 6 < float(value.group(1)) < 8


def test_its_family_is_that_of_the_page_on_own_environments() -> None:
    page = (ROOT / "docs/how-to/own-environment.md").read_text()
    assert block("## Your own environment", "python") in page


def test_it_is_an_entrance() -> None:
    assert len(README.splitlines()) <= 160


def test_both_commands_begin_with_their_own_environment() -> None:
    """``.ci/run`` runs the second as it stands."""
    first, second = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert first.endswith("/pyro-dynamics train")
    assert second.endswith(" pytest")


def test_the_citation_has_the_version() -> None:
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{__version__}}}" in README
