"""Start-up is light: what is imported, and no setting of torch's or the environment's is changed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NEVER = {"arviz_base", "arviz_plots", "arviz_stats", "matplotlib", "minari", "pandas", "ray", "scipy.stats"}
NEVER |= {"tensorboard", "torch._dynamo", "xarray"}
"""What no command needs before it has read its flags."""
LIGHT = NEVER | {"imageio", "mujoco", "pyro", "pyro_dynamics.environments", "scipy", "torch", "tyro", "zuko"}
"""What the package alone does not need."""

REPORT = """
import json, os, sys
print(json.dumps([sorted(sys.modules), os.environ.get("MPLBACKEND")]))
"""
RUN = """
from pyro_dynamics.runners.main import main
try:
    main({arguments})
except SystemExit:
    pass
"""
SETTINGS = "torch.get_num_threads(), torch.get_default_dtype(), torch.tensor([1e-39]).mul(1.0).item()"
"""The product is 0 where denormal numbers are flushed."""


def modules_after(program: str, folder: Path) -> set[str]:
    """What is imported after a program, which leaves the choice of matplotlib's backend alone."""
    environment = {**os.environ, "MPLBACKEND": "svg"}
    command = [sys.executable, "-c", program + REPORT]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    modules, backend = json.loads(ran.stdout.splitlines()[-1])
    assert backend == "svg"
    return set(modules)


@pytest.mark.parametrize(
    "program",
    ["import pyro_dynamics; dir(pyro_dynamics)"]
    + [RUN.format(arguments=words) for words in (["--help"], ["--version"], ["trian"])],
    ids=["import", "--help", "--version", "an unknown command"],
)
def test_the_package_alone_imports_no_torch(program: str, tmp_path: Path) -> None:
    modules = modules_after(program, tmp_path)
    assert "gymnasium" in modules
    assert not modules & LIGHT


COMMANDS = (
    *("families", "train", "sweep", "adapt", "fit", "export", "evaluate", "diagnose", "track", "calibrate"),
    *("reproduce", "compare", "benchmark", "accuracy"),
)


STARTS = (
    *([command, "--help"] for command in COMMANDS),
    *(["train", "nosuch"], ["adapt", "nosuch", "--context", "1"]),
)
EACH = """
import json, os, sys
import torch  # takes most of the time, and every command has it
before = sorted(sys.modules)
for arguments in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr
        from pyro_dynamics.runners.main import main
        try:
            main(arguments)
        except SystemExit:
            pass
        os.write(1, (json.dumps([arguments, sorted(sys.modules), os.environ["MPLBACKEND"]]) + chr(10)).encode())
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(before))
"""
"""Each in a copy of a process that has nothing but torch."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What is imported after each of the starts."""
    ran = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(STARTS)],
        cwd=tmp_path_factory.mktemp("starts"),
        env={**os.environ, "MPLBACKEND": "svg"},
        capture_output=True,
        text=True,
        check=True,
    )
    *found, alone = (json.loads(line) for line in ran.stdout.splitlines())
    assert not set(alone) & (NEVER | {"pyro", "pyro_dynamics", "tyro"})
    assert {backend for *_, backend in found} == {"svg"}
    return {" ".join(arguments): set(modules) for arguments, modules, _ in found}


@pytest.mark.parametrize("arguments", STARTS, ids=" ".join)
def test_no_command_imports_what_it_does_not_need_yet(arguments: list[str], started: dict[str, set[str]]) -> None:
    modules = started[" ".join(arguments)]
    assert f"pyro_dynamics.runners.{arguments[0]}" in modules
    assert not modules & NEVER


@pytest.mark.parametrize("program", ["import pyro_dynamics", RUN.format(arguments=["train", "--help"])])
def test_torchs_settings_are_left_alone(program: str) -> None:
    before, after = (f"import torch\n{some}\nprint({SETTINGS})" for some in ("", program))
    assert last_line(before) == last_line(after)


def last_line(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()[-1]


def test_names_come_when_they_are_asked_for() -> None:
    import pyro_dynamics as pd

    package: Any = pd
    assert package.Family is pd.find_family("pendulum-gravity").__class__
    assert {"FAMILIES", "OnlineAgent", "fit", "load", "make", "train"} <= set(dir(pd))
    assert set(package._MODULES) | {"__version__"} == set(pd.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = package.nosuch


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--help"], 0, "usage: pyro-dynamics COMMAND [OPTIONS]"),
        (["--version"], 0, "pyro-dynamics "),
        (["adapt", "--help"], 0, "usage: pyro-dynamics adapt "),
        (["families"], 0, "pendulum-gravity"),
        (["trian"], 2, "pyro-dynamics: error: unknown command 'trian'"),
        (["adapt", "nosuch"], 2, "pyro-dynamics: error: nosuch is not a run folder"),
    ],
    ids=str,
)
def test_the_package_is_the_command_too(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    """``python -m pyro_dynamics``, where no script is on the path."""
    command = [sys.executable, "-m", "pyro_dynamics", *arguments]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == code, ran.stderr
    assert words in (ran.stderr if code else ran.stdout)
