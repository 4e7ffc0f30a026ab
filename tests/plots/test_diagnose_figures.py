import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor
from torch.distributions import Independent, Normal
from xarray import Dataset, DataTree

from pyro_dynamics.diagnostics.prediction.forecast import Forecast, traversal
from pyro_dynamics.errors import UserError
from pyro_dynamics.plots import uniformity_figures
from pyro_dynamics.plots.posterior_figures import (
    draw_k_hat,
    draw_latents,
    draw_pairs,
    draw_prior_posterior,
    procrustes,
)
from pyro_dynamics.plots.prediction_figures import draw_coverage, draw_fans, draw_traversal
from pyro_dynamics.plots.uniformity_figures import draw_pit
from pyro_dynamics.tasks import Task
from pyro_dynamics.transitions import Transitions

PNG = b"\x89PNG\r\n"


def random_tree(means: np.ndarray, draws: int = 60) -> DataTree:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2, draws, *means.shape))
    names = {"environment": [f"body {k}" for k in range(len(means))], "latent": np.arange(means.shape[1])}
    dims = ("chain", "draw", "environment", "latent")
    groups = {"posterior": means + 0.01 * noise, "prior": noise}
    return DataTree.from_dict({name: Dataset({"e": (dims, values)}, names) for name, values in groups.items()})


def test_procrustes_undoes_turn_mirror_scale_and_shift() -> None:
    target = np.random.default_rng(0).normal(size=(5, 2))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    aligned, disparity = procrustes(target, 3 * target @ turn @ np.diag([1, -1]) + [4, -1])
    assert disparity == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(aligned, target)


def test_disparity_is_what_no_similarity_explains() -> None:
    # Of a cross with four arms of length 1 a line explains two.
    target = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    flat = target * [1, 0]
    assert procrustes(target, flat)[1] == pytest.approx(0.5)
    assert procrustes(flat, target)[1] == pytest.approx(0.5)


def test_procrustes_between_spaces_of_different_size() -> None:
    line = np.array([[0.0], [1.0], [3.0]])
    tilted = line @ [[0.6, 0.8]]
    for target, means in ((line, tilted), (tilted, line)):
        aligned, disparity = procrustes(target, means)
        assert disparity == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(aligned, target, atol=1e-12)


def test_procrustes_of_points_that_all_coincide() -> None:
    target = np.random.default_rng(0).normal(size=(4, 2))
    aligned, disparity = procrustes(target, np.ones((4, 2)))
    assert disparity == pytest.approx(1)
    np.testing.assert_allclose(aligned, np.tile(target.mean(0), (4, 1)))
    assert procrustes(target[:1], target[1:2])[1] == 0


@pytest.mark.parametrize(("environments", "latents"), [(1, 1), (1, 2), (5, 1), (5, 2), (7, 3)])
@pytest.mark.parametrize("numeric", [True, False])
def test_latents_are_drawn_whatever_their_number(environments: int, latents: int, numeric: bool) -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(environments, latents))
    draws = means + 0.1 * rng.normal(size=(50, environments, latents))
    contexts = [float(k) if numeric else f"body {k}" for k in range(environments)]
    others = {"another seed": rng.normal(size=(environments, 2)), "a third": means[::-1]}
    assert draw_latents(means, draws, contexts, ["tilt (degrees)"], others).startswith(PNG)


@pytest.mark.parametrize(("environments", "latents"), [(1, 1), (1, 2), (5, 2), (6, 3), (1, 5)])
def test_trees_are_drawn_whatever_their_size_and_no_figure_stays_open(environments: int, latents: int) -> None:
    tree = random_tree(np.random.default_rng(0).normal(size=(environments, latents)))
    before = pyplot.get_fignums()
    assert draw_prior_posterior(tree).startswith(PNG)
    if latents > 1:
        assert draw_pairs(tree).startswith(PNG)
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize(
    "k_hats", [[0.2], [-math.inf] * 5, [math.nan] * 2, [0.3, -math.inf, math.nan, 41.0, math.inf], [-0.8, 0.69]]
)
def test_every_kind_of_k_hat_is_drawn(k_hats: list[float]) -> None:
    labels = [f"body {k}" for k in range(len(k_hats))]
    assert draw_k_hat(labels, k_hats, 0.66).startswith(PNG)
    assert not pyplot.get_fignums()


def test_calibration_is_drawn() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 5, 18):
        assert draw_pit({f"target {t}": rng.uniform(size=(20, 3)) for t in range(count)}).startswith(PNG)
    assert draw_pit({"short": np.array([0.5]), "long": rng.uniform(size=9)}).startswith(PNG)
    assert not pyplot.get_fignums()
    assert draw_coverage({"6": [0.9, 0.8, 0.85], "12": [1.0, 0.2]}).startswith(PNG)
    assert draw_coverage({"6": [0.9]}, level=0.5).startswith(PNG)


def test_values_that_fill_a_part_do_not_look_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(uniformity_figures, "png", figures.append)
    shares = (np.arange(400) + 0.5) / 400
    draw_pit({"uniform": shares, "lower half": shares / 2, "upper half": 0.5 + shares / 2})
    drawn = [panel.lines[0].get_data() for panel in figures[0].axes]
    for (x, y), (low, high) in zip(drawn, [(0, 0), (0, 0.5), (-0.5, 0)], strict=True):
        assert (y.min(), y.max()) == pytest.approx((low, high), abs=0.02)
        assert (x.min(), x.max()) == pytest.approx((0, 1), abs=0.01)


@pytest.mark.parametrize(("environments", "dimensions", "shown"), [(1, 1, 1), (3, 5, 2)])
def test_fans_are_drawn(environments: int, dimensions: int, shown: int, generator: torch.Generator) -> None:
    windows, horizon = 4 * environments, 6
    observed = torch.randn(windows, horizon, dimensions, generator=generator)
    observed[..., 0] = 1  # a dimension that never changes
    forecast = Forecast(
        draws=observed + torch.randn(20, windows, horizon, dimensions, generator=generator),
        observed=observed,
        start=torch.zeros(windows, dimensions),
        environment=torch.arange(environments).repeat_interleave(4),
        step=torch.zeros(windows, dtype=torch.long),
    )
    labels = [f"body {k}" for k in range(environments)]
    assert draw_fans(forecast, labels, windows=shown).startswith(PNG)
    assert draw_fans(forecast, labels, [f"s{s} (m)" for s in range(dimensions)]).startswith(PNG)


class Drift(Task):
    """Nothing but a state that moves."""

    state_dim = feature_dim = target_dim = 3
    action_dim = 1

    def reward(self, state: Tensor, action: Tensor, next_state: Tensor) -> Tensor:
        return torch.zeros(state.shape[:-1])


class Push:
    """Dimension 1 moves by action times latent, dimension 0 by a tenth of it; member 1 twice as far as member 0."""

    members = 2

    def __call__(self, inputs: Tensor, latent: Tensor) -> tuple[Tensor, Tensor]:
        move = inputs[..., 3:] * latent * torch.tensor([1.0, 2.0])[:, None, None]
        location = torch.cat([0.1 * move, move, 0 * move], -1)
        return location, torch.ones_like(location)


def pushed(latents: list[float], steps: int) -> tuple[Any, Transitions]:
    mean = torch.tensor(latents)[:, None]
    agent = SimpleNamespace(
        task=Drift(),
        model=SimpleNamespace(likelihood=Push()),
        posterior=lambda: Independent(Normal(mean, torch.ones_like(mean)), 1),
    )
    path = torch.arange(steps + 1.0)[:, None] * torch.tensor([1.0, 1.0, 0.0])
    step = torch.arange(steps)
    data = Transitions(path[:-1], torch.ones(steps, 1), path[1:], torch.zeros(steps), torch.zeros_like(step), step)
    return agent, data


def test_traversal_finds_the_dimension_that_the_latent_moves() -> None:
    paths, dimension = traversal(*pushed([1.0, -2.0, 0.0], steps=4), horizon=4)
    assert dimension == 1
    assert list(paths) == [0, 1, 2]
    np.testing.assert_allclose(paths[0], [1.5, 3.0, 4.5, 6.0])  # the mean of members that go 1 and 2 a step
    np.testing.assert_allclose(paths[1], [-3.0, -6.0, -9.0, -12.0])
    assert draw_traversal({str(k): path for k, path in paths.items()}, "push (N)", "place (m)").startswith(PNG)


def test_traversal_of_one_environment_and_of_too_short_episodes() -> None:
    paths, _ = traversal(*pushed([1.0], steps=5), horizon=2)
    assert paths[0].shape == (2,)
    with pytest.raises(UserError, match="no episode has 9 steps"):
        traversal(*pushed([1.0], steps=5), horizon=9)
