"""The figures of training and adaptation, and their files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyro_dynamics.diagnostics.latents.probe import ContextProbe
from pyro_dynamics.plots.adaptation_figure import draw_adaptation
from pyro_dynamics.plots.style import FigureFormat, name_lines, write_figure
from pyro_dynamics.plots.training_figure import draw_training

TRAINED = (2.0, 4.0, 6.0, 8.0)
MEANS = np.array([[-1.0, 0.1], [-0.4, 0.0], [0.3, -0.1], [1.0, 0.2]])
STEPS = 60


def adaptation_rows(contexts: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "step": t,
            "context": context,
            "reward": -1.0 / (t + 1),
            "log_likelihood": -500.0 if t == 30 else 2.0,
            "coverage": 1.0,
        }
        for t, context in enumerate(contexts)
    ]


def belief(rng: np.random.Generator) -> np.ndarray:
    centre = np.where(np.arange(STEPS)[:, None] < 30, MEANS[3], MEANS[0])
    return centre[:, None] + 0.1 * rng.normal(size=(STEPS, 100, 2))


def lines_of(panel: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in panel.get_lines()}


def test_the_truth_the_belief_and_the_prior_are_drawn_first() -> None:
    rng = np.random.default_rng(0)
    rows = adaptation_rows([8.0] * 30 + [2.0] * 30)
    probe, latent, prior = ContextProbe(MEANS, TRAINED), belief(rng), rng.normal(size=(400, 2))
    drawn = draw_adaptation(rows, ["gravity (m/s^2)"], TRAINED, MEANS, probe, latent, prior)
    first, *others = drawn.figure.axes
    assert first.get_ylabel() == "gravity (m/s^2)"
    assert first.get_position().height > 2 * max(panel.get_position().height for panel in others)
    assert lines_of(first)["truth"].get_ydata().tolist() == [8.0] * 30 + [2.0] * 30
    legend = first.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["truth", "belief by a linear probe: median, 90 % interval", "prior", "trained on"]
    low, high = first.get_ylim()
    assert low < 2.0 < 8.0 < high
    assert high - low < 2 * 6.0  # fitted to what is drawn, not to the prior
    named = {text.get_text(): text.get_position()[1] for text in first.texts}
    assert sorted(named, key=lambda name: named[name]) == ["2", "4", "6", "8"]
    assert "1 step below, down to -500" in others[1].get_title(loc="left")


def test_names_have_the_latents_and_the_names_of_the_truth() -> None:
    latent = belief(np.random.default_rng(1))
    names = ["none", "thigh", "shin", "foot"]
    rows = adaptation_rows(["foot"] * 30 + ["none"] * 30)
    drawn = draw_adaptation(rows, ["disabled"], names, MEANS, None, latent)
    assert [panel.get_ylabel() for panel in drawn.figure.axes[:2]] == ["latent 0", "latent 1"]
    words = {text.get_text() for text in drawn.figure.axes[0].texts}
    assert {"truth: foot", "truth: none", *names} == words


@pytest.mark.parametrize(
    "contexts", [[None] * STEPS, [float(t % 7) for t in range(STEPS)]], ids=["unknown", "always new"]
)
def test_logs_without_a_truth_and_schedules_without_rest_are_drawn(contexts: list[Any]) -> None:
    latent, probe = belief(np.random.default_rng(2)), ContextProbe(MEANS, TRAINED)
    drawn = draw_adaptation(adaptation_rows(contexts), ["gravity"], TRAINED, MEANS, probe, latent)
    assert ("truth" in lines_of(drawn.figure.axes[0])) == (contexts[0] is not None)


def test_an_agent_without_a_latent_has_its_predictions_alone() -> None:
    drawn = draw_adaptation(adaptation_rows([3.0] * 5), ["gravity"], TRAINED, np.zeros((4, 0)), None)
    assert len(drawn.figure.axes) == 3


def training_rows(dimensions: int, rounds: int = 3) -> list[dict[str, Any]]:
    rng = np.random.default_rng(dimensions)
    return [
        {
            "round": m,
            "environment": k,
            "context": context,
            "return": -100.0 * (k + 1) / (m + 1),
            "latent_mean": (MEANS[k, 0] + 0.1 * rng.normal(size=dimensions)).tolist() if m and dimensions else None,
            "latent_sd": [0.1] * dimensions if m and dimensions else None,
        }
        for m in range(rounds + 1)
        for k, context in enumerate(TRAINED)
    ]


@pytest.mark.parametrize(("dimensions", "panels"), [(0, 1), (1, 2), (2, 2), (5, 2)])
def test_training_has_returns_and_latents_with_the_names_of_their_environments(dimensions: int, panels: int) -> None:
    drawn = draw_training(training_rows(dimensions), "gravity (m/s^2)")
    assert len(drawn.figure.axes) == panels
    for panel in drawn.figure.axes:
        assert {"2", "4", "6", "8"} <= {text.get_text() for text in panel.texts}
        assert panel.get_legend() is None


def test_names_of_lines_that_end_together_stand_apart() -> None:
    from matplotlib.figure import Figure

    panel = Figure(figsize=(5, 4)).subplots()
    panel.set_ylim(0, 1)
    name_lines(panel, [0.5, 0.501, 0.502, -3.0, 0.99, 1.0], list("abcdef"), ["black"] * 6)
    heights = {text.get_text(): text.xy[1] for text in panel.texts}  # type: ignore[attr-defined]
    assert "".join(sorted(heights, key=lambda name: heights[name])) == "dabcef"
    assert np.diff(sorted(heights.values())).min() > 0.03
    assert min(heights.values()) >= 0
    assert max(heights.values()) <= 1


@pytest.mark.parametrize(("figure_format", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_figure_for_print_lies_beside_the_png_and_is_the_same_each_time(
    figure_format: FigureFormat, start: bytes, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        drawn = draw_training(training_rows(2), "gravity (m/s^2)")
        written = write_figure(tmp_path / f"{name}.png", drawn, figure_format)
        assert [file.suffix for file in written] == list(dict.fromkeys([".png", f".{figure_format}"]))
        assert written[0].read_bytes() == drawn
    files = [tmp_path / f"{name}.{figure_format}" for name in ("one", "two")]
    assert files[0].read_bytes().startswith(start)
    assert files[0].read_bytes() == files[1].read_bytes()
