"""Settings that make no sense are refused before anything is made, by their names; no number ends in a traceback."""

import shutil
import sys
from pathlib import Path

import pytest
from commands import refused
from numeric_flags import EVERY_COMMAND, NumericFlag, numeric_flags

from pyro_dynamics.errors import UserError
from pyro_dynamics.runners.common.limits import LARGEST_COUNT, LARGEST_SEED, check_limits
from pyro_dynamics.runners.main import main

REFUSED = {
    "--ensemble.bound-penalty -1": "bound-penalty must be 0 or more, and finite, not -1.0",
    "--ensemble.bound-penalty nan": "bound-penalty must be 0 or more, and finite, not nan",
    "--ensemble.weight-decay 0 -1 0": "weight-decay must be 0 or more, and finite, not -1.0",
    "--ensemble.weight-decay 0 inf 0": "weight-decay must be 0 or more, and finite, not inf",
    "--ensemble.hidden --ensemble.weight-decay 0": "--ensemble.hidden needs the width of one layer at least",
    "--ensemble.hidden 8 0": "ensemble.hidden must be positive",
    "--guide.initial-scale 1e9": "initial-scale must be at most 100 (the prior's is 1), not 1e+09",
    "--guide flow --guide.initial-scale 101": "initial-scale must be at most 100",
    "--guide mixture --guide.initial-scale inf": "initial-scale must be positive and finite, not inf",
    "--update.backtracks -1": "backtracks must be 0 or more, and finite, not -1",
    "--update.starts 0": "starts must be positive and finite, not 0",
    "--belief.patience -1": "patience must be 0 or more, and finite, not -1",
    "--planner cem --planner.min-variance nan": "min-variance must be 0 or more, and finite, not nan",
    "--planner cem --planner.min-variance -1": "min-variance must be 0 or more, and finite, not -1.0",
    "--guide point --update-while-training": "--update-while-training needs a guide with a density, and --guide point",
    "--guide flow --update kalman": "--update kalman needs a Gaussian guide",
    "--guide mixture --update natural": "--update natural needs a Gaussian guide",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_a_setting_that_makes_no_sense_is_named(flags: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert REFUSED[flags] in refused(["train", *flags.split(), "--out", str(tmp_path / "run")], capsys)
    assert not (tmp_path / "run").exists()


NETWORKS = "--ensemble.members 2 --ensemble.hidden 4 --ensemble.weight-decay 0 0"
OFFLINE = "--offline.min-steps 1 --offline.epochs 1"
ACTING = "--controller.horizon 2 --controller.particles 2"
PLANNER = "--planner.candidates=4 --planner.elites=2 --planner.iterations=1"
TINY = {
    "families": "",
    "train": f"--rounds 1 --steps 6 --episodes 1 {NETWORKS} {OFFLINE} {ACTING} {PLANNER} --out OUT",
    "sweep": "--rounds 1 --out OUT",
    "adapt": "RUN --steps 4 --quiet --out OUT",
    "fit": f"LOG {NETWORKS} {OFFLINE} --out OUT",
    "export": "RUN --csv OUT/log.csv",
    "share": "RUN --out OUT/run.zip",
    "evaluate": "RUN --steps 3 --contexts 3 --out OUT/evaluation.json",
    "diagnose": "RUN --draws 100 --horizon 2 --particles 20 --out OUT",
    "track": "RUN --schedule 0:10,2:6 --steps 4 --seeds 1 --beliefs recursive --updates kalman --out OUT",
    "calibrate": "RUN --temperatures 1 0.5 --steps 3 --out OUT/calibration.json",
    "reproduce": "--preset quick --seeds 1 --baseline-seeds 1 --figures learning --time-budget 0.01 --out OUT",
    "compare": "RUN --out OUT/comparison.png",
    "accuracy": "--guides diagonal --parts linear --steps 3 --samples 2 --practice 2 --warm-up 20 --draws 20 --out OUT",
    "benchmark returns": "--runs RUN --against RUN --episodes 1 --on tests",
    "benchmark collapse": "--steps 2 --seeds 1",
    "benchmark long-run": "--updates 10",
    "benchmark pages": "PAGE",
}
"""The least work of each command; what is not here takes too long whatever its flags are, and is read alone."""
OF_CHOICES = {"train": ("--guide", "--planner"), "adapt": ("--belief", "--update")}
"""Where the settings of each guide, planner, belief and update are tried; other commands have the same classes."""


def arguments_of(command: str, folder: Path) -> list[str]:
    """The arguments, with their places."""
    words = TINY.get(command, "").split()
    for name, place in {"RUN": "run", "LOG": "log.csv", "OUT": "out", "PAGE": "page.md"}.items():
        words = [str(folder / place) + word[len(name) :] if word.startswith(name) else word for word in words]
    return words


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_no_number_is_more_than_a_setting_takes_or_refuses(command: str, tmp_path: Path) -> None:
    """As far as settings are checked when they are made: with the largest number and one beyond, and what is none."""
    for flag in numeric_flags(command, arguments_of(command, tmp_path)):
        for value in (-1, 0, 1, LARGEST_COUNT - 1, LARGEST_COUNT, LARGEST_SEED - 1):
            assert is_taken(flag, value) in (True, False)
        if flag.kind is int:
            assert not is_taken(flag, LARGEST_SEED), f"{command} {flag.name}"
        else:
            assert is_taken(flag, float("nan")) in (True, False)
            assert is_taken(flag, float("inf")) in (True, False)


def is_taken(flag: NumericFlag, value: float) -> bool:
    """Whether the setting takes a number; the only other outcome is a refusal in words."""
    try:
        check_limits(flag.held(value))
    except UserError:
        return False
    return True


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run, and its log."""
    folder = tmp_path_factory.mktemp("home")
    train = arguments_of("train", folder)
    assert main(["train", *train, "--steps", "12", "--out", str(folder / "run")]) == 0
    assert main(["export", str(folder / "run"), "--csv", str(folder / "log.csv")]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in EVERY_COMMAND if command in TINY])
def test_no_number_ends_in_a_traceback(
    command: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each numeric flag at -1, 0, 1, nan and inf, in a run of the command; what takes long is not among these."""
    monkeypatch.setitem(sys.modules, "ray", None)  # a sweep that nothing refuses ends there
    monkeypatch.chdir(home)
    arguments = arguments_of(command, home)
    for flag in numeric_flags(command, arguments):
        if flag.chosen and flag.chosen[0] not in OF_CHOICES.get(command, ()):
            continue
        mine = [word for word in arguments if not flag.chosen or not word.startswith(f"{flag.chosen[0]}.")]
        for value in ("-1", "0", "1") if flag.kind is int else ("-1", "0", "1", "nan", "inf"):
            as_it_is = not flag.chosen and getattr(flag.holder, flag.field) == flag.kind(value)
            if as_it_is or (flag.name, value) == ("--time-budget", "1"):  # a second of a reproduction
                continue
            shutil.rmtree(home / "out", ignore_errors=True)
            capsys.readouterr()
            code = main([*command.split(), *mine, *flag.given(value)])
            printed = capsys.readouterr().err
            assert code in (0, 2), f"{command} {flag.given(value)}: {printed}"
            assert "Traceback" not in printed, f"{command} {flag.given(value)}: {printed}"
            assert value != "nan" or code == 2, f"{command} {flag.given(value)}"
