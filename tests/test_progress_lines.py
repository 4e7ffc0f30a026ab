"""Progress where no one sees a bar move."""

import sys

import pytest

from pyro_dynamics import progress_lines
from pyro_dynamics.progress_lines import PlainLines, progress_bar


def test_a_pipe_gets_whole_lines_and_no_carriage_return(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_lines, "SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with progress_bar(total=4, desc="simulations", unit="update") as bar:
        for _ in range(2):
            bar.update()
            bar.refresh()
    printed = capsys.readouterr().err
    assert "\r" not in printed
    lines = printed.splitlines()
    assert lines[-1].startswith("simulations:")
    assert "50 %, 2 of 4 updates" in lines[-1]
    assert printed.endswith("\n")


def test_what_is_over_soon_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines(total=50, file=sys.stderr) as bar:
        for _ in range(50):
            bar.update()
    assert list(PlainLines(range(3), file=sys.stderr)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar(total=2) as bar:
        bar.update(2)
        assert not isinstance(bar, PlainLines)
    assert "\r" in capsys.readouterr().err
