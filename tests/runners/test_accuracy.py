"""Measures of accuracy against theory, and the command that makes the tables."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch.distributions import Independent, Normal

from pyro_dynamics.diagnostics.posterior.accuracy import (
    closeness,
    grid_posterior,
    mean_field_optimum,
    run_nuts,
    trust,
)
from pyro_dynamics.runners.main import main

pytestmark = pytest.mark.slow


def test_closeness_and_the_mean_field_optimum() -> None:
    exact = torch.tensor([[[4.0, 1.6], [1.6, 1.0]]])  # standard deviations 2 and 1, correlation 0.8
    mean = torch.zeros(1, 2)
    same = closeness(mean, exact, mean, exact)
    assert (same.mean_error, same.covariance_error) == (0, 0)
    assert same.sd_ratio == pytest.approx(1)
    assert same.correlation == pytest.approx(0.8)
    optimum = closeness(mean + torch.tensor([2.0, 1.0]), mean_field_optimum(exact), mean, exact)
    assert optimum.mean_error == pytest.approx(1)
    assert optimum.sd_ratio == pytest.approx(0.6)  # sqrt(1 - 0.8^2)
    assert closeness(mean, None, mean, exact).sd_ratio is None


def test_references_and_divergence_of_a_known_density(generator: torch.Generator) -> None:
    """A Gaussian of known moments and evidence 1/e, by grid and by NUTS; the divergence of a guide twice too narrow."""
    covariance = torch.tensor([[0.5, 0.3], [0.3, 0.4]])
    target = torch.distributions.MultivariateNormal(torch.tensor([0.5, -0.5]), covariance)
    grid = grid_posterior(lambda latent: target.log_prob(latent) - 1, side=101)
    torch.testing.assert_close(grid.mean[0], target.mean, atol=1e-3, rtol=0)
    torch.testing.assert_close(grid.covariance[0], covariance, atol=1e-3, rtol=0)
    assert grid.log_evidence == pytest.approx(-1, abs=1e-3)
    assert grid.skewness == pytest.approx([0, 0], abs=1e-2)

    nuts = run_nuts(target.log_prob, 2, 60, 150, 2, generator)
    assert nuts.r_hat < 1.1
    assert nuts.effective > 30
    found = closeness(nuts.mean, nuts.covariance, grid.mean, grid.covariance)
    assert found.mean_error < 0.35
    assert found.sd_ratio == pytest.approx(1, abs=0.25)

    standard = Independent(Normal(torch.zeros(1, 2), 0.5), 1)
    result = trust(standard, lambda latent: -0.5 * latent.square().sum(-1), math.log(2 * math.pi), generator)
    assert result.divergence == pytest.approx(2 * (math.log(2) + 0.125 - 0.5), abs=0.05)  # 4 standard errors
    assert result.k_hat == pytest.approx(0.75, abs=0.3)


def test_the_command_finds_the_known_optima(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--guides", "diagonal", "full-rank", "--parts", "linear", "--steps", "1000", "--samples", "64"]
    assert main(["accuracy", *flags, "--out", str(tmp_path / "accuracy")]) == 0
    table = (tmp_path / "accuracy" / "table.md").read_text()
    assert table in capsys.readouterr().out
    results = json.loads((tmp_path / "accuracy" / "accuracy.json").read_text())
    assert results["flags"]["steps"] == 1000
    rows = {(row["guide"], row["update"]): row for row in results["linear"]}
    optimum = rows["mean-field optimum", ""]
    assert abs(rows["exact", ""]["correlation"]) == pytest.approx(0.8, abs=0.05)
    assert optimum["sd_ratio"] < 0.7
    for update in ("svi", "kalman"):
        assert rows["full-rank", update]["covariance_error"] < 0.05
        assert rows["full-rank", update]["mean_error"] < 0.1
        assert rows["diagonal", update]["sd_ratio"] == pytest.approx(optimum["sd_ratio"], rel=0.05)
        assert rows["diagonal", update]["mean_error"] < 0.1
    assert rows["full-rank", "kalman"]["covariance_error"] < 1e-4


def test_what_a_point_does_not_have_is_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--guides", "point", "laplace", "--steps", "5", "--warm-up", "20", "--draws", "20", "--repeats", "1"]
    assert main(["accuracy", *flags, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    results = json.loads((tmp_path / "accuracy.json").read_text())
    (point,) = (row for row in results["neural"]["rows"] if row["guide"] == "point")
    assert point["mean_error"] > 0
    assert point["sd_ratio"] is None
    assert "k_hat" not in point
    assert results["time"][0]["milliseconds"] is None
    assert results["time"][2]["milliseconds"] > 0
    assert "| point | svi | - |" in printed
    chains_met = results["neural"]["chains"]["r_hat"] <= 1.02
    assert ("not reliable" in printed) != chains_met


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--guides", "diagnal"], "unknown guide 'diagnal': choose one of amortized, auto, diagonal"),
        (["--guides"], "--guides needs one or more"),
        (["--parts"], "--parts needs one or more"),
        (["--steps", "0"], "steps must be positive"),
        (["--draws", "3"], "--draws must be at least 20"),
        (["--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_bad_flags_are_reported_in_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", *flags]) == 2
    message = capsys.readouterr().err.strip()
    assert len(message.splitlines()) == 1
    assert words in message
