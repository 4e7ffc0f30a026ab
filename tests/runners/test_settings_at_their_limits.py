"""Settings that make no sense are refused before anything is made, by their names."""

from pathlib import Path

import pytest
from commands import refused

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
    "--planner.min-variance nan": "min-variance must be 0 or more, and finite, not nan",
    "--planner.min-variance -1": "min-variance must be 0 or more, and finite, not -1.0",
    "--guide flow --update kalman": "--update kalman needs a Gaussian guide",
    "--guide mixture --update natural": "--update natural needs a Gaussian guide",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_a_setting_that_makes_no_sense_is_named(flags: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert REFUSED[flags] in refused(["train", *flags.split(), "--out", str(tmp_path / "run")], capsys)
    assert not (tmp_path / "run").exists()
