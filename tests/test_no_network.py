"""A run needs no network: with every socket that leads out of the machine blocked, all of it works."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from foreign_files import TINY

from pyro_dynamics.runners.main import main

ASKED: list[str] = []


class Asked(OSError):
    """Somebody asked for the network."""


def refuse(what: str) -> Any:
    def refused(*arguments: Any, **_: Any) -> None:
        ASKED.append(f"{what} {arguments[-1:]}")
        raise Asked(what)

    return refused


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    ASKED.clear()
    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse(name))
    for name in ("create_connection", "getaddrinfo", "gethostbyname", "create_server"):
        monkeypatch.setattr(socket, name, refuse(name))


@pytest.mark.usefixtures("_no_network")
def test_the_block_blocks() -> None:
    for attempt in (lambda: socket.create_connection(("localhost", 9)), lambda: socket.socket().connect(("::1", 9))):
        with pytest.raises(Asked):
            attempt()
    assert len(ASKED) == 2


@pytest.mark.usefixtures("_no_network")
def test_train_adapt_evaluate_diagnose_export_and_fit_ask_for_nothing(tmp_path: Path) -> None:
    run, log = str(tmp_path / "run"), str(tmp_path / "log.npz")
    small = ["--ensemble.hidden", "8", "--ensemble.weight-decay", "1e-5", "1e-5", "--offline.min-steps", "5"]
    for command in (
        ["train", *TINY, "--out", run],
        ["adapt", run, "--context", "4", "--steps", "5", "--quiet"],
        ["evaluate", run, "--steps", "5"],
        ["diagnose", run, "--draws", "100", "--particles", "20", "--horizon", "3"],
        ["export", run, "--npz", log],
        ["share", run],
        ["fit", log, "--group", "gravity", *small, "--out", str(tmp_path / "fit")],
    ):
        assert main(command) == 0, command
    assert not ASKED


PLANNED = """
import torch
from pyro_dynamics.models import Ensemble, EnsembleConfig, planning_engine
planning_engine.can_fuse = lambda dtype: False
print(type(Ensemble(3, 1, 2, EnsembleConfig(2, (8,), (0.0, 0.0))).for_planning()).__name__)
"""


def test_the_planning_engine_reports_to_nobody(tmp_path: Path) -> None:
    """ONNX Runtime has sockets of its own, which no Python sees; what it would send waits in the home folder."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    variables = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    variables |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", PLANNED]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "OnnxEnsemble"
    assert list(tmp_path.rglob("*")) == []
