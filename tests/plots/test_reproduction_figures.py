"""The figures of a reproduction: drawn from full, partial and odd rows, without a warning, and the same each time."""

import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.image import imread
from reproduction_rows import CHECKPOINTS, NEW, SCHEDULE, TRAINED, latent_rows, of_seeds, row, score_rows

from pyro_dynamics.errors import UserError
from pyro_dynamics.plots import reproduction_figures as figures
from pyro_dynamics.plots.reproduction_latents import latents_map, latents_training
from pyro_dynamics.reproduction.latent_rows import LatentRows

pytestmark = pytest.mark.slow

SPEEDS = {"latent": 0.6, "generalist": 0.3, "specialist": 0.3, "an own agent": 0.2}
FEW = (-6.0, 6.0, -3.0, 15.0, SCHEDULE)
ROWS = [one for one in score_rows(SPEEDS, seeds=3) if one["context"] in FEW and one["checkpoint"] in (None, 8)]
LATENTS = latent_rows(seeds=2)

OF_SCORES: dict[str, Callable[[list[Any]], bytes]] = {
    "learning_normalised": lambda rows: figures.learning_normalised(rows, "tilt"),
    "learning_by_environment_normalised": lambda rows: figures.learning_by_environment_normalised(rows, "tilt"),
    "learning_by_environment": lambda rows: figures.learning_by_environment(rows, "tilt", "tilt (degrees)"),
    "dynamic": lambda rows: figures.dynamic(rows, "tilt"),
    "final_scores": lambda rows: figures.final_scores(rows, "tilt", "tilt (degrees)"),
    "ablation": lambda rows: figures.ablation(rows, "tilt-6", reference="tilt"),
    "gain_by_influence": lambda rows: figures.gain_by_influence(rows, {"tilt": 0.1, "unknown": 5.0}),
}


@pytest.fixture(autouse=True)
def _quiet_and_closed() -> Iterator[None]:
    before = pyplot.get_fignums()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert pyplot.get_fignums() == before


def pixels(png: bytes) -> np.ndarray:
    return imread(BytesIO(png))


def has_colour(png: bytes, colour: tuple[int, int, int]) -> bool:
    return bool((np.abs(pixels(png)[..., :3] * 255 - colour) < 2).all(-1).any())


BLUE, ORANGE, GREEN = (31, 119, 180), (255, 127, 14), (44, 160, 44)


@pytest.mark.parametrize("name", OF_SCORES)
def test_figures_show_every_agent_in_its_colour(name: str) -> None:
    found = OF_SCORES[name](ROWS)
    if name == "gain_by_influence":
        assert has_colour(found, BLUE)
        return
    assert has_colour(found, BLUE)
    assert has_colour(found, ORANGE)
    assert has_colour(found, GREEN)
    without = OF_SCORES[name]([one for one in ROWS if one["agent"] != "generalist"])
    assert not has_colour(without, ORANGE)


@pytest.mark.parametrize("name", ["learning_normalised", "final_scores"])
def test_same_rows_give_the_same_bytes(name: str) -> None:
    assert OF_SCORES[name](ROWS) == OF_SCORES[name](list(ROWS))


@pytest.mark.parametrize(
    "part",
    [
        [],
        [one for one in of_seeds(ROWS, 0) if one["agent"] in ("latent", "random")],
        [one for one in ROWS if one["agent"] != "random"],
        [one for one in ROWS if one["split"] == "train" and one["episode"] < 1 + one["seed"]],
        [{**one, "return": 1.0} for one in ROWS if one["seed"] < 2],
    ],
    ids=["nothing", "one seed of one agent", "no random policy", "begun", "constant"],
)
@pytest.mark.parametrize("name", OF_SCORES)
def test_partial_rows_are_drawn(name: str, part: list[Any]) -> None:
    assert OF_SCORES[name](part).startswith(b"\x89PNG")


def test_contexts_may_be_names_or_several_numbers() -> None:
    for contexts in (["short", "long"], [[0.5, 1.0], [1.5, 1.0]]):
        rows = [
            row("body", agent, seed, split, at, context, 0, 0.0 if agent == "random" else 100.0 + seed)
            for context in contexts
            for split, at in (("train", None), ("test", 3))
            for agent, seeds in (("random", 1), ("latent", 2), ("generalist", 2))
            for seed in range(seeds)
        ]
        assert figures.final_scores(rows, "body").startswith(b"\x89PNG")
        assert figures.learning_by_environment(rows, "body").startswith(b"\x89PNG")
        latents = [
            {**one, "mean": [float(index), 0.0], "sd": [0.1, 0.1], "checkpoint": 3}
            for index, one in enumerate(rows)
            if one["agent"] == "latent"
        ]
        assert latents_map(latents, "body").startswith(b"\x89PNG")


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_latents_of_any_size_are_drawn(dimensions: int) -> None:
    rows = latent_rows(seeds=2, dimensions=dimensions)
    assert latents_training(rows, "tilt", seed=1).startswith(b"\x89PNG")
    assert latents_map(rows, "tilt").startswith(b"\x89PNG")


def test_no_latents_are_no_fault() -> None:
    for part in ([], [one for one in LATENTS if one["split"] == "train"], [{**LATENTS[0], "mean": []}]):
        assert latents_training(part, "tilt").startswith(b"\x89PNG")
        assert latents_map(part, "tilt").startswith(b"\x89PNG")


def test_map_is_of_the_last_checkpoint_in_the_order_of_contexts() -> None:
    found = LatentRows(LATENTS, "tilt").last(1)
    assert found is not None
    assert found.contexts == sorted(TRAINED + NEW)
    assert [c for c, trained in zip(found.contexts, found.trained, strict=True) if trained] == list(TRAINED)
    at_end = {
        one["context"]: one["mean"] for one in LATENTS if (one["seed"], one["checkpoint"]) == (1, CHECKPOINTS[-1])
    }
    assert found.means.tolist() == [at_end[context] for context in found.contexts]


def test_trained_latents_are_those_of_the_checkpoint_and_not_of_later_rounds() -> None:
    rows = [one for one in LATENTS if one["split"] == "train" or one["checkpoint"] < 8]
    found = LatentRows(rows, "tilt").last(0)
    assert found is not None
    at_five = {one["context"]: one["mean"] for one in rows if (one["seed"], one["checkpoint"]) == (0, 5)}
    assert found.means.tolist() == [at_five[context] for context in found.contexts]


def test_damaged_latents_are_refused() -> None:
    with pytest.raises(UserError, match="has no context"):
        LatentRows([{key: value for key, value in LATENTS[0].items() if key != "context"}], "tilt")
