"""Python functions as graphs of tensor operations for torch.compile, and what to say where that fails."""

import logging
import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx


class CompilationFailed(Exception):
    """There is no C++ compiler here, or torch.compile does not get along with the likelihood or the guide."""


def traced(function: Callable[..., Any], *arguments: object) -> GraphModule:
    """The tensor operations of ``function`` alone: torch.compile need not read the Python of Pyro and likelihood."""
    graph = make_fx(function, decomposition_table=WITH_A_GATE)(*arguments)
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_check_errors.default):
        graph.graph.erase_node(node)  # no loop takes an operation that may raise; what fails shows as NaN
    _compute_gates_once(graph.graph)
    graph.recompile()
    return graph


def hoisted(graph: GraphModule, constants: int) -> tuple[GraphModule, GraphModule]:
    """Part a graph for a loop: what its last inputs alone decide, and the rest.

    Args:
        graph: takes and gives trees of tensors.
        constants: how many of the leaves that it takes, the last ones, stay as they are from step to step.

    Returns:
        A graph from the constants to tensors, and one from all other leaves and those tensors to the leaves that
        ``graph`` gives.
    """
    nodes, inputs = list(graph.graph.nodes), graph.graph.find_nodes(op="placeholder")
    moving, still = inputs[: len(inputs) - constants], inputs[len(inputs) - constants :]
    changed = {_memory_of(node) for node in nodes if _writes(node)}  # must be new in every step
    before = set(still)
    for node in nodes:
        alone = node.op == "call_function" and node.all_input_nodes and before.issuperset(node.all_input_nodes)
        if alone and node not in changed:
            before.add(node)
    within = {node for node in nodes if node not in before}
    for node in reversed(nodes):
        if _is_view(node) and not within.isdisjoint(node.users):
            within.add(node)  # no two tensors that a loop takes may share memory: views are made inside
    given = [node for node in nodes if node not in within and not within.isdisjoint(node.users)]
    return _part(graph, still, before, given), _part(graph, moving + given, within, None)


def _is_view(node: Node) -> bool:
    if node.target is operator.getitem:  # one of the parts that an operation gave
        return _is_view(node.all_input_nodes[0])
    return getattr(node.target, "is_view", False)


def _writes(node: Node) -> bool:
    """Whether an operation is done in place, as ``add_`` is."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _memory_of(node: Node) -> Node:
    """The operation that made the memory which a view shows, or an operation in place writes."""
    while _is_view(node) or _writes(node):
        node = node.all_input_nodes[0]
    return node


def _part(graph: GraphModule, inputs: list[Node], nodes: set[Node], outputs: list[Node] | None) -> GraphModule:
    """Some nodes as a graph from ``inputs`` to ``outputs``, or to what the whole graph gives."""
    part = Graph()
    copies = {node: part.placeholder(node.name) for node in inputs}
    for node in graph.graph.nodes:
        if node in nodes and node not in copies:
            copies[node] = part.node_copy(node, copies.__getitem__)
    if outputs is not None:
        part.output(tuple(copies[node] for node in outputs))
    return GraphModule(graph, part)


WITH_A_GATE: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x),
    torch.ops.aten.silu_backward.default: lambda gradient, x: (
        gradient * (torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))))
    ),
}
"""The activation and its slope by their common gate. Of all that is not a matrix product, the gate costs the most."""


def _compute_gates_once(graph: Graph) -> None:
    """Let the backward pass take the gates of the forward pass."""
    known: dict[Node, Node] = {}
    for gate in graph.find_nodes(op="call_function", target=torch.ops.aten.sigmoid.default):
        value = gate.args[0]
        while isinstance(value, Node) and value.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            value = value.args[0]
        first = known.setdefault(value, gate)
        if first is not gate:
            gate.replace_all_uses_with(first)
            graph.erase_node(gate)


def for_this_processor() -> dict[str, Any]:
    """Options of ``torch.compile``: the width of this processor's vectors in bits, which torch would take anyway.

    Its cache on disk distinguishes graphs for AVX2 from those for AVX-512 by nothing else, and may have come with an
    image or a shared folder from another machine: the wrong ones give wrong numbers or crash.
    """
    bits = {"AVX2": 256, "AVX512": 512}.get(torch.backends.cpu.get_cpu_capability())
    return {"cpp.simdlen": bits} if bits else {}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch's compiler says about itself from the user."""
    log = logging.getLogger("torch._inductor")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@cache
def warn_once(message: str) -> None:
    """A warning, once a process."""
    warnings.warn(message, stacklevel=4)
