# SPDX-License-Identifier: Apache-2.0
"""Exported programs without updates: for formats of graphs whose nodes only have results.

An op that updates operands is called by a *twin*: an operator that leaves them alone and returns
their new values behind the results.
"""

from __future__ import annotations

import itertools
import operator
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import torch
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.utils._pytree import tree_flatten

from graphffi.plugin import flat
from graphffi_torch._export.decompose import all_nodes, changed, check_exported
from graphffi_torch._export.updates import check_not_tied, check_updates, functionalized
from graphffi_torch._operators.fakes import make_effect_fake
from graphffi_torch._operators.operator_schema import arguments_by_name, functional_schema
from graphffi_torch._operators.operator_table import (
    operators_of,
    registered_operators,
    registered_ops,
)

if TYPE_CHECKING:
    from graphffi.plugin import DefinedOp, Definition

_NAMESPACE: Final = "graphffi_functional"
_UPDATES: Final = ("BUFFER_MUTATION", "USER_INPUT_MUTATION")
_lock: Final = threading.Lock()
_numbers: Final = itertools.count()
_library: Final = torch.library.Library(_NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
_twins: Final[dict[str, Any]] = {}  # by the name of the op, whose schema stays


class Functional(NamedTuple):
    """A program without updates.

    Args:
        program: It returns what it updated, behind its own results.
        updates: What these results are new values of, in order: the names of inputs and buffers,
            each with True for a buffer.
    """

    program: torch.export.ExportedProgram
    updates: list[tuple[str, bool]]


def twin_of(op: DefinedOp) -> Any:
    """The operator of an op, which is registered, that returns new values of updated operands."""
    definition = op.definition
    with _lock:
        if op.name not in _twins:
            name = f"{definition.name.partition('::')[2]}_{next(_numbers)}"
            _library.define(functional_schema(definition, name))  # type: ignore[no-untyped-call]
            torch.library.register_fake(f"{_NAMESPACE}::{name}", make_effect_fake(op), lib=_library)
            _twins[op.name] = getattr(getattr(torch.ops, _NAMESPACE), name).default
        return _twins[op.name]


def pure_operators() -> dict[Any, Definition]:
    """The operators without updates and side effects, one for each op: its own, or its twin."""
    ops = [op for op in registered_ops() if not op.definition.has_side_effect]
    return {
        twin_of(o) if o.definition.is_updating else operators_of(o)[0]: o.definition for o in ops
    }


def functional(function: str, exported: torch.export.ExportedProgram) -> Functional:
    """Puts twins in the place of ops that update operands, and returns what the program updates.

    Args:
        function: Begins error messages, ``export``.
        exported: From `torch.export.export`.

    Raises:
        TypeError: If it is no exported program.
        ValueError: For one after `run_decompositions` that has ops which update operands; if it
            updates a parameter or a constant, or one of two buffers that share memory; if two
            inputs of the example were one tensor.
        NotImplementedError: For ops with side effects.
    """
    check_exported(function, exported)
    check_not_tied(function, exported)
    check_updates(function, exported)
    definitions = {o: d for d, operators in registered_operators() for o in operators}
    _check_ops(function, exported, definitions)
    updating = {operators_of(op)[0]: op for op in registered_ops() if op.definition.is_updating}

    def change(graph: torch.fx.Graph) -> dict[str, str]:
        replaced: dict[str, str] = {}
        for node in list(graph.nodes):
            if node.target in updating:
                replaced.update(_replace(function, node, updating[node.target]))
        return replaced

    return _with_updates_returned(functionalized(function, changed(exported, change)))


def _check_ops(
    function: str, exported: torch.export.ExportedProgram, definitions: dict[Any, Definition]
) -> None:
    for _, node in all_nodes(exported.graph_module):
        # auto_functionalized(op, …) and with_effects(token, op, …)
        for target in (node.target, *node.args[:2]):
            definition = definitions.get(target) if callable(target) else None
            if definition is None:
                continue
            if definition.has_side_effect:
                raise NotImplementedError(
                    f"{definition.name}: {function}: expected an op without side effects, got "
                    f"has_side_effect={definition.has_side_effect!r}; return a result that the "
                    "program uses"
                )
            if target is not node.target:
                _refuse(definition, function, "a program before run_decompositions", "one after it")
            if str(target).endswith(".out"):
                _refuse(definition, function, "a call that returns its results", "one of '.out'")


def _refuse(definition: Definition, function: str, expected: str, given: str) -> NoReturn:
    raise ValueError(f"{definition.name}: {function}: expected {expected}, got {given}")


def _replace(function: str, node: torch.fx.Node, op: DefinedOp) -> dict[str, str]:
    """Calls the twin, and copies what it returns to the operands.

    Returns:
        The new names of nodes that stand for results, by the old ones.
    """
    graph, count = node.graph, len(op.definition.results)
    updated = _updated(function, node, op.definition)
    values = [*flat([node.meta.get("val")]), *(tensor.meta["val"] for tensor in updated)][
        -count - len(updated) :
    ]
    with graph.inserting_before(node):
        returned = graph.call_function(twin_of(op), node.args, node.kwargs)
        returned.meta = {**node.meta, "val": values}
        items = []
        for i, value in enumerate(values):
            items.append(graph.call_function(operator.getitem, (returned, i)))
            items[i].meta["val"] = value
        for tensor, item in zip(updated, items[count:], strict=True):
            copied = graph.call_function(torch.ops.aten.copy_.default, (tensor, item))
            copied.meta["val"] = tensor.meta["val"]
    stand_ins = {user: items[int(user.args[1])] for user in node.users} if count > 1 else {}  # type: ignore[arg-type]
    stand_ins |= {node: items[0]} if count == 1 else {}
    for old, new in stand_ins.items():
        old.replace_all_uses_with(new)
        graph.erase_node(old)
    if count != 1:
        graph.erase_node(node)
    return {old.name: new.name for old, new in stand_ins.items()}


def _updated(function: str, node: torch.fx.Node, definition: Definition) -> list[torch.fx.Node]:
    """The nodes that a call updates: tensors of their own."""
    values = arguments_by_name(definition, node.args, node.kwargs)
    found = [(o, t) for o in definition.operands for t in flat([values.get(o.name)])]
    for i, (operand, tensor) in enumerate(found):
        other = next((o for k, (o, t) in enumerate(found) if t is tensor and k != i), None)
        if operand.mutated and other is not None:
            raise ValueError(
                f"{definition.name}: {function}: operand {operand.name!r}: expected a tensor of "
                f"its own, since the call updates it, got that of operand {other.name!r}; clone it"
            )
    return [tensor for operand, tensor in found if operand.mutated]


def _with_updates_returned(program: torch.export.ExportedProgram) -> Functional:
    """The program that returns the new values of inputs and buffers, behind its own results."""
    renamed = changed(program, lambda graph: {})
    graph, signature = renamed.graph, renamed.graph_signature
    returned: Any = graph.output_node().args[0]
    pairs = list(zip(signature.output_specs, returned, strict=True))
    own = [pair for pair in pairs if pair[0].kind.name not in _UPDATES]
    updates = [spec for spec, _ in pairs if spec.kind.name in _UPDATES]
    with graph.inserting_before(graph.output_node()):
        # Results of their own: the program may return the same tensor itself.
        values = [_copy(graph, value) for spec, value in pairs if spec.kind.name in _UPDATES]
    graph.output_node().args = (tuple([*(value for _, value in own), *values]),)
    renamed.graph_module.recompile()
    given = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(v.name), None) for v in values]
    signature.output_specs[:] = [*(spec for spec, _ in own), *given]
    entry = renamed.module_call_graph[0]
    _, nesting = tree_flatten(tuple(range(len(pairs))))
    entry.signature = replace(entry.signature, out_spec=nesting)
    names = [(str(spec.target), spec.kind is OutputKind.BUFFER_MUTATION) for spec in updates]
    return Functional(renamed, names)


def _copy(graph: torch.fx.Graph, value: torch.fx.Node) -> torch.fx.Node:
    copied = graph.call_function(torch.ops.aten.clone.default, (value,))
    copied.meta["val"] = value.meta["val"]
    return copied
