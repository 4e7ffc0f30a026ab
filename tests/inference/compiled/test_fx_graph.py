"""Graphs that are parted for a loop."""

import torch
from torch import Tensor
from torch.fx import GraphModule

from pyro_dynamics.inference.compiled.fx_graph import hoisted, traced


def products(graph: GraphModule) -> int:
    return len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default))


def test_what_constants_alone_decide_is_taken_out_and_nothing_else_changes() -> None:
    torch.manual_seed(0)
    state, constants = torch.randn(3, 3), {"weight": torch.randn(3, 3), "bias": torch.randn(3), "unused": torch.ones(1)}

    def step(state: Tensor, constants: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        still = (constants["weight"] @ constants["weight"]).exp()
        return state @ still.T + constants["bias"], state @ constants["weight"].T

    graph = traced(step, state, constants)
    before, within = hoisted(graph, len(constants))
    assert (products(graph), products(before), products(within)) == (3, 1, 2)
    given = before(*constants.values())
    storages = [part.untyped_storage().data_ptr() for part in given]
    assert len(set(storages)) == len(storages)  # a loop takes no two that share memory
    for found, expected in zip(within(state, *given), step(state, constants), strict=True):
        assert torch.equal(found, expected)


def test_a_graph_without_constants_stays_whole() -> None:
    graph = traced(lambda x: (x @ x,), torch.eye(2))
    before, within = hoisted(graph, 0)
    assert before() == ()
    assert torch.equal(within(2 * torch.eye(2))[0], 4 * torch.eye(2))


def test_what_is_written_in_place_is_made_anew_in_every_step() -> None:
    def step(state: Tensor, constants: Tensor) -> tuple[Tensor, Tensor]:
        copy = constants.exp()
        copy.chunk(2)[0].add_(state).mul_(2)
        return copy, constants.exp() + state

    state, constants = torch.ones(3), torch.randn(2, 3)
    before, within = hoisted(traced(step, state, constants), 1)
    given = before(constants)
    assert len(given) == 2  # the constants themselves, and the exponential that is not written to
    for _ in range(2):
        for found, expected in zip(within(state, *given), step(state, constants), strict=True):
            assert torch.equal(found, expected)
