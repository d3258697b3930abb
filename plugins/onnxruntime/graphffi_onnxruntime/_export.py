# SPDX-License-Identifier: Apache-2.0
"""Models whose nodes are ops, made of exported programs of PyTorch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from graphffi.plugin import read_lines
from graphffi_onnxruntime._node_text import CALL
from graphffi_onnxruntime._ops_file import write_ops_of
from graphffi_onnxruntime._translate import Translation, check_call
from graphffi_torch.plugin import (
    Functional,
    PrimitiveCall,
    all_nodes,
    functional,
    pure_operators,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def export(
    model: torch.nn.Module | torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    device: str | None = None,
    **options: Any,
) -> str:
    """Writes a program as an ONNX model, of which each call of an op is one typed node.

    Beside the model lie the list of its ops, ``model.onnx.ops``, and the libraries of the kernels.

    An input that the program updates stays as it is: its new value is another result of the model,
    behind those of the program, called ``<input>_updated``. So is that of a buffer, which becomes
    an input with its value as default.

    Args:
        model: From `torch.export.export`, or a module to export.
        path: Of the model to write, ``model.onnx``.
        args: Of the module, if it is one.
        kwargs: The same.
        dynamic_shapes: Of the module's arguments, as `torch.export.export` takes it.
        device: The type of the devices that the model is to run on, ``"cuda"``, by which kernels
            are chosen; default: those of the program's tensors.
        options: Others of `torch.onnx.export`, such as ``input_names`` and ``opset_version``.

    Returns:
        The path.

    Raises:
        NotImplementedError: For a call that no node can stand for: with side effects, with an
            attribute that the program computes, with complex tensors, with a list of tensors that
            is not the last operand, or of an op without a kernel for it.
        ValueError: For a program after `run_decompositions` whose ops update operands; if one
            updates a parameter, a constant, a buffer that shares memory, or another operand.
        FileNotFoundError: If a kernel library is not where its reference says.

    Example:
        >>> graphffi_onnxruntime.export(model, "model.onnx", (x,))  # doctest: +SKIP
    """
    if not isinstance(model, torch.export.ExportedProgram):
        arguments = tuple(args), dict(kwargs or {})
        model = torch.export.export(model, *arguments, dynamic_shapes=dynamic_shapes)
    found = functional("export", model)
    _check_calls(found.program)
    external_data = options.pop("external_data", True)
    made = _translate(found.program, device, **options)
    _add_updates(made.model.graph, found)
    if options.get("optimize", True):
        made.optimize()
    _restore_inputs(made.model.graph)
    write_ops_of(made.model, os.fspath(path))
    made.save(os.fspath(path), external_data=external_data)
    return os.fspath(path)


def translation_table(*, device: str | None = None) -> dict[Any, Callable[..., Any]]:
    """All ops that torch has, as the ``custom_translation_table`` of `torch.onnx.export`.

    For programs that torch exports without this package. Write the list of ops with `write_ops`
    behind that. Ops that update operands have to be replaced before, as `export` does.

    Args:
        device: As for `export`.
    """
    return Translation(device).table()


def _check_calls(program: torch.export.ExportedProgram) -> None:
    """Refuses calls before torch does, which says less."""
    operators = pure_operators()
    for _, node in all_nodes(program.graph_module):
        definition = operators.get(node.target)
        if definition is not None:
            call = PrimitiveCall.of(definition, node.target, node.args, node.kwargs)
            nodes = [list(o) if isinstance(o, (list, tuple)) else o for o in call.operands]
            check_call(call, torch.fx.node.map_arg(nodes, lambda node: node.meta["val"]))


def _translate(
    program: torch.export.ExportedProgram, device: str | None, **options: Any
) -> torch.onnx.ONNXProgram:
    translation = Translation(device)
    table = {**translation.table(), **options.pop("custom_translation_table", {})}
    # Optimized later: buffers that the program updates are no constants.
    given = {"dynamo": True, "verbose": False, **options, "optimize": False}
    try:
        made = torch.onnx.export(program, custom_translation_table=table, **given)
    except torch.onnx.errors.OnnxExporterError:
        if translation.refusal is None:
            raise
        raise translation.refusal from None
    assert made is not None
    return made


def _add_updates(graph: Any, found: Functional) -> None:
    """Names the results that are new values; makes inputs of the buffers that they are of."""
    names = [n for n in found.program.graph_signature.user_inputs if isinstance(n, str)]
    inputs = dict(zip(names, graph.inputs, strict=True))
    results = graph.outputs[len(graph.outputs) - len(found.updates) :]
    for (name, is_buffer), result in zip(found.updates, results, strict=True):
        updated = graph.initializers.get(name) if is_buffer else inputs[name]
        if updated is not None and is_buffer:
            graph.inputs.append(updated)
        result.name = _free_name(f"{name if updated is None else updated.name}_updated", graph)


def _restore_inputs(graph: Any) -> None:
    """Gives nodes their last inputs, if absent, again: ONNX wants them before an empty list."""
    for node in graph.all_nodes():
        if CALL in node.attributes:
            _, lines = read_lines(node.attributes[CALL].as_string())
            node.resize_inputs(sum(name == "input" for name, _ in lines))


def _free_name(name: str, graph: Any) -> str:
    made = (output for node in graph for output in node.outputs)
    taken = {value.name for value in (*graph.inputs, *graph.initializers.values(), *made)}
    while name in taken:
        name += "_"
    return name
