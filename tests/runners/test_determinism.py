"""The seed of a run decides its numbers: nothing reads or moves a global generator."""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pyro_dynamics.runners.main import main

TINY = ["--rounds", "1", "--steps", "15", "--episodes", "1", "--offline.min-steps", "20", "--planner.candidates", "10"]
TINY += ["--planner.elites", "2", "--controller.horizon", "4", "--seed", "3"]


def everything(folder: Path) -> dict[str, bytes]:
    """The numbers of a short life: training, adaptation to a change, evaluation."""
    run = folder / "run"
    assert main(["train", *TINY, "--out", str(run)]) == 0
    assert main(["adapt", str(run), "--schedule", "0:3,8:9", "--steps", "15", "--quiet"]) == 0
    assert main(["evaluate", str(run), "--contexts", "5"]) == 0
    names = ("metrics.jsonl", "evaluation-contexts=5.json", "adapt/0_3_8_9-steps15-seed0/steps.jsonl")
    return {name: (run / name).read_bytes() for name in names}


def seed_globally(seed: int) -> tuple[Any, ...]:
    """Seed all three global generators, and return the state of numpy's and torch's then."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the global one is what is looked at
    torch.manual_seed(seed)
    return states()


def states() -> tuple[Any, ...]:
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    return keys.tolist(), rest, torch.get_rng_state().tolist()  # type: ignore[attr-defined]


def set_traps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python's and numpy's global generators raise when they are drawn from.

    tyro may: it rolls dice over when to empty a cache of its own.
    """

    def trap(name: str, original: Any) -> Any:
        def sprung(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"]
            assert caller.startswith("tyro"), f"{caller} called {name} of the global generator"
            return original(*arguments, **named)

        return sprung

    names = {
        random: ("random", "uniform", "gauss", "randint", "choice", "choices", "shuffle", "sample"),
        np.random: ("rand", "randn", "random", "normal", "uniform", "randint", "choice", "shuffle", "permutation"),
    }
    for module, functions in names.items():
        for name in functions:
            monkeypatch.setattr(module, name, trap(f"{module.__name__}.{name}", getattr(module, name)))


def test_global_generators_are_neither_read_nor_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    set_traps(monkeypatch)
    for seed in (1, 2):
        before = seed_globally(seed)
        found.append(everything(tmp_path / str(seed)))
        assert states() == before
    assert found[0] == found[1]
