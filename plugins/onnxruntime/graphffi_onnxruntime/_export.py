# SPDX-License-Identifier: Apache-2.0
"""Models whose nodes are ops, made of exported programs of PyTorch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from graphffi_onnxruntime._ops_file import write_ops
from graphffi_onnxruntime._translate import Translation, check_dtypes
from graphffi_torch.plugin import Functional, PrimitiveCall, functional, pure_operators

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
    program = model
    if not isinstance(model, torch.export.ExportedProgram):
        program = torch.export.export(
            model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
        )
    found = functional("export", program)
    translation = Translation(device)
    table = {**translation.table(), **options.pop("custom_translation_table", {})}
    optimize = options.pop("optimize", True)
    external_data = options.pop("external_data", True)
    try:
        made: Any = torch.onnx.export(
            found.program,
            dynamo=True,
            verbose=False,
            optimize=False,
            custom_translation_table=table,
            **options,
        )
    except torch.onnx.errors.OnnxExporterError:
        if translation.refusal is None:
            raise
        raise translation.refusal from None
    _add_updates(made.model.graph, found)
    if optimize:
        made.optimize()
    made.save(os.fspath(path), external_data=external_data)
    return os.fspath(path)


def _add_updates(graph: Any, found: Functional) -> None:
    inputs = found.program.graph_signature.user_inputs
    given = dict(zip((name for name in inputs if isinstance(name, str)), graph.inputs))
    results = graph.outputs[len(graph.outputs) - len(found.updates) :]
    for (name, is_buffer), result in zip(found.updates, results, strict=True):
        held = graph.initializers.get(name) if is_buffer else given[name]
        if is_buffer and held is not None:
            graph.inputs.append(held)
        result.name = f"{held.name if held is not None else name}_updated"


def translation_table(*, device: str | None = None) -> dict[Any, Callable[..., Any]]:
    return Translation(device).table()
