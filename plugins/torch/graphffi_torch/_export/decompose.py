# SPDX-License-Identifier: Apache-2.0
"""Exported programs whose ops are calls of `tvm_ffi::call`: they run without the definitions."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from graphffi_torch._compiled.repairs import repair
from graphffi_torch._export.sizes_of_one import as_exported
from graphffi_torch._operators.choice import run_rule, smallest
from graphffi_torch._operators.operator_schema import overload_of
from graphffi_torch._operators.operator_table import registered_operators
from graphffi_torch._operators.primitive import (
    CALL_EFFECT,
    PRIMITIVES,
    PrimitiveCall,
    call_primitive,
)
from graphffi_torch._operators.reference import compute, compute_into
from graphffi_torch._operators.specs import empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphffi.plugin import Definition

_BRANCHING: Final = ("associative_scan", "cond", "map_impl", "scan", "while_loop")


def options_for_updates() -> dict[str, bool]:
    """Options of Inductor for programs that update buffers, after repairs for these.

    Torch (2.13 at least) takes buffers of equal elements, and of few, for constants: others, and
    later calls, would read their first values.
    """
    repair()
    return {"joint_graph_constant_folding": False, "always_keep_tensor_constants": True}


def decompose(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Replaces every op by the allocation of its results and a call of `tvm_ffi::call`.

    Args:
        exported: From `torch.export.export`, before `run_decompositions`.

    Returns:
        Another program that computes the same. Saved, it is loaded and run by any process that has
        imported `graphffi_torch`, without the Python that defined the ops; it names kernels by
        reference.

    Raises:
        TypeError: If it is no exported program.
        ValueError: For one after `run_decompositions` that has ops.
        NotImplementedError: For ops within transformations of `torch.func`.
    """
    check_exported("decompose", exported)
    operators = {o: definition for definition, all_of in registered_operators() for o in all_of}

    def change(graph: torch.fx.Graph) -> dict[str, str]:
        replaced: dict[str, str] = {}
        depth = 0  # of transformations of torch.func
        for node in list(graph.nodes):
            name = getattr(node.target, "__name__", "")
            depth += name.endswith("_increment_nesting") - name.endswith("_decrement_nesting")
            definition = operators.get(node.target)
            if definition is not None:
                if depth > 0:
                    _refuse_transformed(definition)
                if exported.dialect != "TRAINING":
                    _refuse_late(definition)
                replaced.update(_replace(node, definition))
            elif node.op == "call_function":
                _check_not_functionalized(node, operators)
        return replaced

    with as_exported(exported):
        return changed(exported, change)


def _check_not_functionalized(node: torch.fx.Node, operators: Mapping[Any, Definition]) -> None:
    # auto_functionalized(op, …) and with_effects(token, op, …)
    for argument in node.args[:2]:
        opt_definition = operators.get(argument) if callable(argument) else None
        if opt_definition is not None:
            _refuse_late(opt_definition)


def _refuse_late(definition: Definition) -> NoReturn:
    raise ValueError(
        f"{definition.name}: decompose: expected a program before run_decompositions, got one "
        "after it; decompose first"
    )


def _refuse_transformed(definition: Definition) -> NoReturn:
    raise NotImplementedError(
        f"{definition.name}: decompose: expected a call outside of torch.func's transformations, "
        "got one within; trace the program with make_fx, then export the graph"
    )


def check_exported(function: str, exported: Any) -> None:
    """Refuses what is no exported program."""
    if not isinstance(exported, torch.export.ExportedProgram):
        raise TypeError(
            f"graphffi_torch: {function}: expected a torch.export.ExportedProgram, got "
            f"{type(exported).__name__}; call torch.export.export first"
        )


def check_branches(function: str, program: torch.export.ExportedProgram) -> None:
    """Refuses calls with side effects that torch's compilers (2.13 at least) do not keep.

    Args:
        function: Begins the error message, ``package``.
        program: A decomposed one.

    Raises:
        NotImplementedError: For such a call in a branch or a loop.
    """
    for module, node in all_nodes(program.graph_module):
        if str(node.target) not in _BRANCHING:
            continue
        parts = [a for a in node.args if isinstance(a, torch.fx.Node) and a.op == "get_attr"]
        calls = (call for p in parts for _, call in all_nodes(getattr(module, str(p.target))))
        for call in calls:
            if call.target is CALL_EFFECT:
                raise NotImplementedError(
                    f"graphffi_torch: {function}: kernel {str(call.args[0])!r}: expected no call "
                    f"with side effects in branches and loops, got one in torch's {node.target}; "
                    "call it outside"
                )


def all_nodes(root: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, torch.fx.Node]]:
    """The nodes of a graph, and of its branches and loops, each with the module that has it."""
    for module in root.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            yield module, node


def changed(
    exported: torch.export.ExportedProgram,
    change: Callable[[torch.fx.Graph], Mapping[str, str]],
) -> torch.export.ExportedProgram:
    """A copy of a program, changed; weights are shared.

    Args:
        exported: The program.
        change: Changes its graph, or one of a branch or loop, but for the number of inputs and
            outputs. Returns the new names of nodes that stand for others, by the old ones.
    """
    module, names = _changed_module(exported.graph_module, change)
    signature = copy.deepcopy(exported.graph_signature)
    # A copy of a graph has other names for inputs that are called as functions of Python are.
    inputs = zip(
        exported.graph.find_nodes(op="placeholder"),
        module.graph.find_nodes(op="placeholder"),
        strict=True,
    )
    renamed = {old.name: new.name for old, new in inputs if old.name != new.name}
    for old, new in {**renamed, **names}.items():
        signature.replace_all_uses(old, new)
    return torch.export.ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=exported.state_dict,
        range_constraints=exported.range_constraints,
        module_call_graph=copy.deepcopy(exported.module_call_graph),
        example_inputs=exported.example_inputs,
        constants=exported.constants,
        verifiers=exported.verifiers,
    )


def _changed_module(
    module: torch.fx.GraphModule, change: Callable[[torch.fx.Graph], Mapping[str, str]]
) -> tuple[torch.fx.GraphModule, Mapping[str, str]]:
    """A copy of a graph module and those that it calls, and the new names in its own graph."""
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    copied.meta.update(module.meta)
    for name, child in list(copied.named_children()):
        if isinstance(child, torch.fx.GraphModule):
            setattr(copied, name, _changed_module(child, change)[0])
    names = change(copied.graph)
    copied.recompile()
    return copied, names


def _replace(node: torch.fx.Node, definition: Definition) -> dict[str, str]:
    """Puts what the op is made of in the place of its node.

    Returns:
        The new names of nodes that stand for results, by the old ones.
    """
    body = _trace(node, definition)
    if not any(inner.target in PRIMITIVES for inner in body.graph.nodes):
        _check_sizes(node, definition)
    inputs = iter(node.all_input_nodes)
    copies: dict[torch.fx.Node, Any] = {}
    returned: list[Any] = []
    with node.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                copies[inner] = next(inputs)
            elif inner.op == "output":
                returned = [copies[result] for result in inner.args[0]]
            else:
                made = node.graph.node_copy(inner, copies.__getitem__)
                kept = {k: v for k, v in node.meta.items() if k not in ("val", "eager_input_vals")}
                made.meta = {**kept, **inner.meta}
                copies[inner] = made
    if isinstance(node.meta.get("val"), torch.Tensor):
        stand_ins = {node: returned[0]}
    else:  # users of a tuple take items from it
        stand_ins = {user: returned[int(user.args[1])] for user in node.users}  # type: ignore[arg-type]
    for old, new in stand_ins.items():
        old.replace_all_uses_with(new)
        if old is not node:
            node.graph.erase_node(old)
    node.graph.erase_node(node)
    return {old.name: new.name for old, new in stand_ins.items()}


def _check_sizes(node: torch.fx.Node, definition: Definition) -> None:
    """Makes the program refuse sizes that torch excluded while it traced the op's reference."""
    graph = node.graph
    with graph.inserting_before(node):
        for source in node.all_input_nodes:
            shape: Any = getattr(source.meta.get("val"), "shape", ())
            for i, size in enumerate(shape):
                if not isinstance(size, torch.SymInt):
                    continue
                least = smallest(size)
                found = graph.call_function(torch.ops.aten.sym_size.int, (source, i))
                is_right = graph.call_function(operator.ge, (found, least))
                found.meta["val"], is_right.meta["val"] = size, size >= least
                text = f"{definition.name}: '{source.name}': expected size {least} or more of "
                text += f"dimension {i} as in the exported program"
                graph.call_function(torch.ops.aten._assert_scalar.default, (is_right, text))


def _trace(node: torch.fx.Node, definition: Definition) -> torch.fx.GraphModule:
    """A graph of the node's input nodes that returns a list of the op's results."""

    def body(*values: Any) -> list[torch.Tensor]:
        given = dict(zip(node.all_input_nodes, values, strict=True))
        args = map_arg(node.args, given.__getitem__)
        kwargs: Any = map_arg(node.kwargs, given.__getitem__)
        return run_decomposed(definition, node.target, args, kwargs)

    values = [input_node.meta["val"] for input_node in node.all_input_nodes]
    # One of the whole program's: the op may take no tensors.
    all_values = (any_node.meta.get("val") for any_node in node.graph.nodes)
    fake_mode = next(value.fake_mode for value in all_values if hasattr(value, "fake_mode"))
    # Below the tracer: it gives allocations symbolic sizes. Parameters are among the values.
    with fake_mode, torch.no_grad():
        return make_fx(body)(*values)


def run_decomposed(
    definition: Definition, target: Any, args: Any, kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Calls the primitive in the place of an op's operator, and gives what that returns."""
    call = PrimitiveCall.of(definition, target, args, kwargs)
    results: list[torch.Tensor] = []
    if call.outputs is None:
        specs = run_rule(definition.infer, *call.rule_arguments())
        results = empty(definition.name, definition.results, specs, torch.device("cpu"))
    outputs = results if call.outputs is None else call.outputs
    kernel, workspace = call.kernel(is_guarded=False)
    if kernel.is_reference:
        return _run_reference(call, overload_of(target), results)
    primitive = call.primitive(kernel, outputs, workspace, described=True)
    if overload_of(target) == "effect":
        return list(CALL_EFFECT(*primitive.arguments()))
    filled = call_primitive(
        kernel.traits, primitive, num_mutated=len(primitive.outputs) - len(results)
    )
    return filled[: len(results)]


def _run_reference(
    call: PrimitiveCall, overload: str, results: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The results of the op's operator, as operations of torch."""
    definition = call.definition
    if overload == "effect":
        raise NotImplementedError(
            f"{definition.name}: decompose: expected a kernel for an op with side effects that "
            "updates operands, got the reference"
        )
    operands, attributes = call.rule_arguments()
    if call.outputs is None and not definition.is_updating:
        return compute(
            definition,
            call.operands,
            attributes,
            run_rule(definition.infer, operands, attributes),
        )
    compute_into(definition, call.operands, attributes, call.outputs or results)
    return list(results)
