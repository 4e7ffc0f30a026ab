"""Adaptive intervals cover 90 % whatever the network believes of its noise."""

import pytest
import torch
from torch.distributions import Normal

from pyro_dynamics.diagnostics.prediction.intervals import AdaptiveIntervals


@pytest.mark.parametrize("believed", [0.01, 1.0, 100.0])
def test_one_target_in_ten_lies_outside_in_the_long_run(believed: float, generator: torch.Generator) -> None:
    intervals, inside = AdaptiveIntervals(4, 3), []
    for _ in range(600):
        what = torch.randn(4, 3, generator=generator)
        inside.append(intervals.cover(Normal(0, believed * intervals.factor).cdf(what)))
    settled = torch.stack(inside[100:]).float()
    assert settled.mean(0) == pytest.approx(0.9 * torch.ones(4, 3), abs=0.03)


def test_the_width_grows_when_the_physics_change(generator: torch.Generator) -> None:
    intervals = AdaptiveIntervals(1, 1)
    widths = []
    for step in range(400):
        what = torch.randn(1, 1, generator=generator) * (1 if step < 200 else 20)
        intervals.cover(Normal(0, intervals.factor).cdf(what))
        widths.append(float(intervals.factor))
    early, late = torch.tensor(widths[100:200]).median(), torch.tensor(widths[300:]).median()
    assert late / early == pytest.approx(20, rel=0.5)
