"""The paths of a GPU beside the processor's, where there is a GPU; without one they are skipped."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from pyro_dynamics.benchmarks.timing import Work
from pyro_dynamics.cuda_graphs import Captured
from pyro_dynamics.inference.compiled import compiled_update
from pyro_dynamics.runners.benchmarks.speed import SpeedFlags, build_from, configuration

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
GPU = torch.device("cuda")


def agent(preset: Any = "realtime", **changes: Any) -> Any:
    config = configuration(SpeedFlags(device="cuda"), preset)
    torch.manual_seed(0)
    return build_from(replace(config, **changes), 3)


def graphs(agent: Any) -> list[Captured]:
    return list(agent.controller.elsewhere._captured.values())


@pytest.mark.parametrize("preset", ["realtime", "paper"])
def test_a_plan_is_one_graph_and_repeats_itself(preset: Any) -> None:
    planned = agent(preset)
    work = Work(planned)
    actions = []
    for _ in range(2):
        planned.controller.reset()
        draws = torch.Generator().manual_seed(1)
        for _ in range(3):
            actions.append(planned.act(work.state, work.environment, draws))
    assert all(graph.is_graph for graph in graphs(planned))
    assert all(bool(action.isfinite().all()) and action.device.type == "cpu" for action in actions)
    for first, second in zip(actions[:3], actions[3:], strict=True):
        torch.testing.assert_close(first, second)
    assert not torch.equal(actions[0], actions[1])


def test_the_graph_gives_what_its_operations_give_one_by_one() -> None:
    planned = agent()
    work, controller = Work(planned), planned.controller
    draws = torch.Generator().manual_seed(1)
    launched = planned.act(work.state, work.environment, draws)
    controller.reset()
    (graph,) = graphs(planned)
    graph._graph = None
    draws.manual_seed(1)
    torch.testing.assert_close(planned.act(work.state, work.environment, draws), launched, rtol=1e-3, atol=1e-3)


def test_what_cannot_be_captured_is_reported_and_spoils_nothing() -> None:
    def looks(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if bool((x > 0).all()) else x

    ones = torch.ones(3)
    with pytest.warns(UserWarning, match="is no CUDA graph and takes longer"):
        plain = Captured(looks, GPU, None, ones)
    assert not plain.is_graph
    torch.testing.assert_close(plain(ones), ones + 1)
    draws = torch.Generator(GPU)
    drawn = Captured(lambda x: x + torch.rand(3, device=GPU, generator=draws), GPU, draws, ones)
    assert drawn.is_graph
    values = []
    for seed in (1, 2, 1):
        draws.manual_seed(seed)
        values.append(drawn(ones))
    torch.testing.assert_close(values[0], values[2])
    assert not torch.equal(values[0], values[1])


def test_a_training_is_that_of_the_processor() -> None:
    states = []
    for device in ("cpu", "cuda"):
        trained = agent(device=device)
        Work(trained, seed=2).train_epoch()
        states.append(trained.model.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=0.02, atol=2e-3)


def test_an_update_is_that_of_the_processor() -> None:
    """The draws are made on the processor, and are the same."""
    there, here = agent(), agent(device="cpu")
    for updated in (here, there):
        work = Work(updated, seed=2)
        updated.act(work.state, work.environment, torch.Generator())  # another graph beside it
        work.update()
        work.update()
    (built,) = compiled_update._compiled[there.model.likelihood].values()
    assert built is not None
    assert built.loop.is_graph  # type: ignore[attr-defined]
    found, expected = there.posterior(), here.posterior()
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found.stddev, expected.stddev, rtol=1e-3, atol=1e-4)
