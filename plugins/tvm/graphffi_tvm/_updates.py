# SPDX-License-Identifier: Apache-2.0
"""Operands that calls update: in Relax modules, their new values are results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch.fx.node import map_arg

from graphffi.plugin import flat
from graphffi_torch.plugin import (
    DIGEST,
    PrimitiveCall,
    argument_names,
    input_memory,
    memory_of,
    updates_of_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphffi.plugin import Definition

FUNCTIONAL: Final = "auto_functionalized_v2"
"""Torch's operator for a call that updates tensors, after `run_decompositions`."""


@dataclass
class UpdatingCall:
    """The arguments of a call of an op's operator, and the tensors that it updates.

    Args:
        args: By position.
        kwargs: By name.
        nodes: Of the tensors, in the order of `CanonicalCall.mutated`.
        num_bases: How many tensors torch's functional form of the call returns behind its results;
            -1 for a call that is not of that form.
        bases: The number among them of each tensor.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    nodes: list[torch.fx.Node]
    num_bases: int = -1
    bases: list[int] = field(default_factory=list)

    @property
    def is_functional(self) -> bool:
        """True for torch's functional form."""
        return self.num_bases >= 0

    @staticmethod
    def in_place(definition: Definition, node: torch.fx.Node) -> UpdatingCall:
        """Made of a call of the op's operator."""
        call = PrimitiveCall.of(definition, node.target, node.args, node.kwargs)
        return UpdatingCall(node.args, node.kwargs, definition.updated(call.operands))

    def mapped(self, value_of: Callable[[torch.fx.Node], Any]) -> tuple[Any, Any]:
        """The arguments with a value for each node."""
        return map_arg(self.args, value_of), map_arg(dict(self.kwargs), value_of)

    def finish(self, importer: Any, made: list[Any], num_results: int) -> Any:
        """The values of the call's node for TVM's importer; `made` are results, then new values."""
        results, updated = made[:num_results], made[num_results:]
        if not self.is_functional:
            for node, value in zip(self.nodes, updated, strict=True):
                importer.env[node] = value  # for all nodes that follow
            return results[0] if num_results == 1 else results
        values = dict(zip(self.bases, updated, strict=True))
        # Without results, torch's form has None in their place.
        return [*(results or [None]), *(values.get(i) for i in range(self.num_bases))]


def read_functional(definition: Definition, node: torch.fx.Node) -> UpdatingCall:
    """The call that torch's functional form stands for.

    Raises:
        NotImplementedError: For an operand that is a part of another tensor.
    """
    kwargs: dict[str, Any] = dict(node.kwargs)
    bases: Any = kwargs.pop("_all_bases")
    update = UpdatingCall((), kwargs, [], len(bases))

    def take(name: str) -> Any:
        index: Any = kwargs.pop(f"_{name}_base_index")
        kwargs.pop(f"_{name}_alias", None)  # it is like its base
        if index is None:
            return None
        update.nodes.append(bases[index])
        update.bases.append(index)
        return bases[index]

    arguments = argument_names(definition)
    for parameter, name in zip(definition.parameters, arguments, strict=True):
        if not getattr(parameter, "mutated", False):
            continue
        length: Any = kwargs.pop(f"_{name}_length", None)
        kwargs[name] = (
            take(name) if length is None else [take(f"{name}_{i}") for i in range(length)]
        )
    views = [name for name in kwargs if name not in (*arguments, DIGEST)]
    if views:
        _refuse(definition.name, "a whole tensor", "a part of another one")
    return update


def check_update(
    definition: Definition, graph: torch.fx.Graph, update: UpdatingCall, operands: Sequence[Any]
) -> None:
    """Refuses updates of the caller's tensors, of tensors that have views, and of other operands.

    Args:
        definition: Of the op.
        graph: The program's.
        update: The call.
        operands: Its tensors in the trace, in the definition's order.

    Raises:
        NotImplementedError: For such an operand.
    """
    if not update.nodes:
        return
    inputs = input_memory(graph)
    memories = [memory_of(node.meta["val"]) for node in update.nodes]
    every = list(map(memory_of, flat(operands)))
    if any(every.count(memory) > 1 for memory in memories):
        _refuse(definition.name, "memory of its own", "memory shared with another operand")
    for node, memory in zip(update.nodes, memories, strict=True):
        if memory in inputs:
            _refuse_input(definition.name, inputs[memory])
        if update.is_functional:
            continue
        for other in graph.nodes:
            if other is not node and memory in map(memory_of, _tensors(other)):
                _refuse(
                    definition.name,
                    f"memory of its own for {node.name!r}",
                    f"memory shared with {other.name!r}; convert with run_ep_decomposition=True",
                )


def check_program(program: torch.export.ExportedProgram) -> None:
    """Refuses a program that updates its inputs, buffers or parameters: TVM drops the new values.

    Raises:
        NotImplementedError: For such an update.
    """
    for subject, _, name in updates_of_inputs(program):
        _refuse_input(subject, name)
    for spec in program.graph_signature.output_specs:
        if spec.kind.name.endswith("_MUTATION"):
            _refuse_input("graphffi_tvm", str(spec.target))


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    return [v for v in flat([node.meta.get("val")]) if isinstance(v, torch.Tensor)]


def _refuse(subject: str, expected: str, got: str) -> NoReturn:
    raise NotImplementedError(
        f"{subject}: graphffi_tvm: expected {expected} where a call updates a tensor, got {got}"
    )


def _refuse_input(subject: str, name: str) -> NoReturn:
    _refuse(
        subject,
        "a new tensor",
        f"{name!r}, a tensor of the caller's or a buffer, whose update TVM drops; update a clone "
        "and return it",
    )
