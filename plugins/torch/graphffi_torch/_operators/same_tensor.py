# SPDX-License-Identifier: Apache-2.0
"""Tests if two tensors of a call are one, in this call and in all that run the graph of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphffi.plugin import flat

if TYPE_CHECKING:
    from torch.fx import Graph, Node


def is_same(one: Any, other: Any) -> bool:
    """True if tensors, also those without data, show the same elements in the same order.

    Where a graph is made of calls, they do so in every call of the graph.
    """
    if not shows_same(one, other):
        return False
    from torch.fx.experimental.proxy_tensor import (  # slow to import
        PythonKeyTracer,
        get_proxy_mode,
    )

    mode = get_proxy_mode()
    if mode is None or not isinstance(mode.tracer, PythonKeyTracer):
        return True
    first, second = map(mode.tracer.unwrap_proxy, (one, other))
    if not isinstance(first, torch.fx.Proxy) or not isinstance(second, torch.fx.Proxy):
        return True  # constants of the graph
    return have_one_origin(first.node, second.node, mode.tracer.graph)


def shows_same(one: Any, other: Any) -> bool:
    """True if two tensors show the same elements in the same order, in the call at hand."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    memory = memory_of(one)
    if memory is None or memory is not memory_of(other):
        return False
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # slow to import

    facts, others = (
        (x.dtype, x.requires_grad, x.is_conj(), x.is_neg(), x.ndim) for x in (one, other)
    )
    numbers, other_numbers = ((x.storage_offset(), *x.shape, *x.stride()) for x in (one, other))
    return facts == others and all(
        statically_known_true(n == m) for n, m in zip(numbers, other_numbers, strict=True)
    )


def memory_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The memory of a tensor, also in a trace: one object for all tensors that share it.

    None for those of `vmap`, in flex attention's functions, too, and those that are not strided.
    """
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return None


def have_one_origin(one: Node, other: Node, graph: Graph) -> bool:
    """True if tensors that share memory do so in every call of the graph that they are nodes of.

    Inputs of one call may be views of one tensor, and of another call not: nothing guards that.

    Args:
        one: Gives the one tensor.
        other: Gives the other.
        graph: Has the inputs; `one` and `other` may be nodes of a part of it.
    """
    memory = next(iter(_memories(one)), None)
    if sum(_has(n, memory) for n in graph.find_nodes(op="placeholder")) < 2:
        return True
    origins = _origins(one, memory)
    return len(origins) == 1 and origins == _origins(other, memory)


def _origins(node: Node, memory: Any) -> set[Node]:
    """The nodes that a node is a view of: those of that memory which are made of no other of it."""
    found, seen, nodes = set(), set(), [node]
    while nodes:
        current = nodes.pop()
        if current not in seen:
            seen.add(current)
            earlier = [n for n in current.all_input_nodes if _has(n, memory)]
            nodes += earlier
            if not earlier:
                found.add(current)
    return found


def _has(node: Node, memory: Any) -> bool:
    return any(one is memory for one in _memories(node))


def _memories(node: Node) -> list[Any]:
    """The memory of the tensors that a node gives."""
    value = node.meta.get("example_value", node.meta.get("val"))
    tensors = (item for item in flat(value) if isinstance(item, torch.Tensor))
    return [memory for memory in map(memory_of, tensors) if memory is not None]
