"""Progress where no one sees a bar move."""

import sys
import time
from typing import Any

import pytest

from pyro_dynamics import progress_lines
from pyro_dynamics.progress_lines import LongWait, PlainLines, progress_bar


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


DAY = 86_400.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1.1 * DAY, "about 26 hours"),
        (500 * DAY, "about 500 days"),
        (3 * 365.25 * DAY, "about 3 years"),
        (1e30, "more than 1000 years"),
        (float("inf"), "more than 1000 years"),
    ],
)
def test_what_takes_very_long_is_said_once(seconds: float, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    wait = LongWait()
    wait.expect(0.9 * DAY, "nothing")
    assert capsys.readouterr().err == ""
    wait.expect(seconds, "7 rounds")
    wait.expect(seconds, "7 rounds")
    assert capsys.readouterr().err == f"this takes {words} at its present speed: 7 rounds; smaller numbers take less\n"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("total", [10**9, 10**15, 2**63 - 1])
def test_a_bar_says_that_its_end_is_far(
    terminal: bool, total: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with progress_bar(total=total, unit="step") as bar:
        for _ in range(5):
            time.sleep(0.01)
            bar.update()
            bar.refresh()
    printed = capsys.readouterr().err
    assert printed.count("at its present speed: 3 of ") == 1
    assert f"of {total} steps are done" in printed


class Logger:
    """A standard error of the user's own, with no more than print() needs."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("stream", [None, Logger()])
def test_a_bar_needs_no_terminal(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs without a console have none, and a logger of one's own does not say what it is."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_lines, "SECONDS", 0.0)
    with progress_bar(total=3, unit="step") as bar:
        for _ in range(3):
            bar.set_postfix_str("well")
            bar.update()
            bar.refresh()
    assert stream is None or "3 of 3 steps" in stream.text


def test_a_bar_whose_end_is_near_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(total=1000, unit="step") as bar:
        for _ in range(5):
            time.sleep(0.01)
            bar.update()
            bar.refresh()
    assert "present speed" not in capsys.readouterr().err
