"""What a program sets for all of its process neither changes a number here nor is changed."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from torch.overrides import _get_current_function_mode_stack

import pyro_dynamics as pd
from pyro_dynamics.processor import own_settings

SMALL: dict[str, Any] = {
    "rounds": 1,
    "steps": 10,
    "episodes": 1,
    "offline": {"min_steps": 20, "epochs": 1},
    "ensemble": {"members": 2, "hidden": (8,), "weight_decay": (0.0, 0.0)},
    "controller": {"horizon": 3, "particles": 2},
    "planner_config": {"candidates": 8, "elites": 3, "iterations": 2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settings") / "run"
    pd.train("pendulum-gravity", out=folder, **SMALL)
    return folder


def numbers(run: Path) -> str:
    """What an agent does and believes in a few steps."""
    agent = pd.load(run, seed=1)
    state, found = np.array([0.9, 0.4, 0.3], np.float32), []
    for _ in range(2):
        action = agent.act(state)
        agent.update(state, action, state + np.float32(0.05))
        found += [action.tolist(), agent.belief.mean.tolist(), agent.belief.sample(2).tolist()]
    return repr([*found, agent.predict(state, action, draws=6).mean.tolist(), agent.trained_beliefs, agent.belief])


@contextmanager
def switched(on: Callable[[], Any], off: Callable[[], Any]) -> Iterator[None]:
    on()
    try:
        yield
    finally:
        off()


def settings() -> tuple[Any, ...]:
    """What a program may have set."""
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.distributions.Distribution._validate_args,
        torch.get_rng_state().tolist(),
        np.geterr(),
        np.random.get_state()[1].tolist(),  # type: ignore[index]  # noqa: NPY002
        list(pyro.get_param_store()),
    )


CASES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "float64": lambda: switched(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "another device": lambda: torch.device("meta"),
    "another default device": lambda: switched(
        lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)
    ),
    "threads": lambda: switched(lambda: torch.set_num_threads(2), lambda: torch.set_num_threads(1)),
    "deterministic": lambda: switched(
        lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)
    ),
    "less precision": lambda: switched(
        lambda: torch.set_float32_matmul_precision("medium"), lambda: torch.set_float32_matmul_precision("highest")
    ),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no gradients": torch.no_grad,
    "inference mode": torch.inference_mode,
    "numpy raises": lambda: np.errstate(all="raise"),
    "warnings are errors": lambda: warnings.catch_warnings(action="error"),
    "a seed": lambda: switched(lambda: torch.manual_seed(9), lambda: None),
    "parameters": lambda: switched(lambda: pyro.param("location", torch.ones(3)), pyro.clear_param_store),
    "no validation": lambda: switched(lambda: pyro.enable_validation(False), lambda: pyro.enable_validation(True)),
    "a plate": lambda: pyro.plate("environment", 7, dim=-1),
    "a handler": lambda: poutine.scale(scale=100.0),
}


@pytest.mark.parametrize("setting", CASES.values(), ids=CASES)
def test_what_a_program_sets_decides_no_number(setting: Callable[[], AbstractContextManager[Any]], run: Path) -> None:
    wanted = numbers(run)
    with setting():
        before = settings()
        found = numbers(run)
        after = settings()
    assert found == wanted
    assert after == before


def test_nothing_stands_between_a_program_that_sets_nothing_and_torch() -> None:
    """A device's context is asked at every call of torch: a third of the time of a gradient step."""
    with own_settings():
        assert not _get_current_function_mode_stack()
    with torch.device("meta"), own_settings(), own_settings():
        assert torch.zeros(1).device.type == "cpu"
        assert len(_get_current_function_mode_stack()) == 2  # theirs, and one of ours


def test_another_thread_finds_the_same(run: Path) -> None:
    found: list[str] = []
    threads = [Thread(target=lambda: found.append(numbers(run))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [numbers(run)] * 2


def test_a_saved_belief_is_loaded_in_inference_mode(run: Path, tmp_path: Path) -> None:
    agent, state = pd.load(run), np.array([0.9, 0.4, 0.3], np.float32)
    agent.update(state, [0.5], state + np.float32(0.1))
    agent.save(tmp_path / "saved")
    with torch.inference_mode():
        again = pd.load(tmp_path / "saved")
        again.update(state, [0.5], state + np.float32(0.1))
    agent.update(state, [0.5], state + np.float32(0.1))
    assert np.array_equal(again.belief.mean, agent.belief.mean)


def test_a_command_that_a_program_calls_is_the_same(run: Path, tmp_path: Path) -> None:
    from pyro_dynamics.runners.main import main

    words = ["adapt", str(run), "--context", "5", "--steps", "3", "--quiet", "--out"]
    assert main([*words, str(tmp_path / "one")]) == 0
    with CASES["float64"](), CASES["no gradients"](), CASES["a plate"]():
        before = settings()
        assert main([*words, str(tmp_path / "two")]) == 0
        assert settings() == before
    assert (tmp_path / "one/steps.jsonl").read_bytes() == (tmp_path / "two/steps.jsonl").read_bytes()
