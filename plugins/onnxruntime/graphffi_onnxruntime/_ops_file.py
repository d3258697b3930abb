# SPDX-License-Identifier: Apache-2.0
"""The files beside a model, without which nobody can run it: the list of its ops, and libraries."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx_ir

from graphffi.plugin import PackagedLibraries, definition_of, read_lines, replacing
from graphffi_onnxruntime._node_text import CALL, ops_text

if TYPE_CHECKING:
    from graphffi.plugin import Definition

_log: Final = logging.getLogger("graphffi_onnxruntime")


def write_ops(path: str | os.PathLike[str]) -> str:
    """Writes what a model needs beside itself: ``model.onnx.ops`` and its kernel libraries.

    `export` calls it. Call it for a model that `torch.onnx.export` wrote with `translation_table`,
    or that was made by hand.

    Args:
        path: Of the model. The ops of its nodes have to be defined in this process.

    Returns:
        The path of the list of ops.

    Raises:
        KeyError: For a node whose op is not defined.
        FileNotFoundError: If a kernel library is not where its reference says.
        ValueError: For a node of an op that is defined otherwise now, and for a kernel that a
            factory made of Python code.
        RuntimeError: If a kernel library was built anew since it was loaded.
    """
    return write_ops_of(onnx_ir.load(os.fspath(path)), os.fspath(path))


def write_ops_of(model: onnx_ir.Model, file: str) -> str:
    """The same for a model that is still to be written."""
    definitions: dict[str, Definition] = {}
    devices: set[str] = set()
    functions: set[str] = set()
    found: list[PackagedLibraries] = []
    for name, text in sorted(_calls(model)):
        _, lines = read_lines(text)
        definitions[name] = _definition(name, dict(lines)["digest"])
        devices.add(dict(lines)["device"])
        libraries = PackagedLibraries(f"{name}: {os.path.basename(file)}")
        kernels = [value for line, value in lines if line == "kernel"]
        functions.update(kernel for kernel in kernels if libraries.add(kernel) == kernel)
        found.append(libraries)
    for libraries in found:
        libraries.copy_to(Path(file).parent)
    if functions:
        _log.warning(
            "graphffi_onnxruntime: model %r: has no library with the kernels %s, which are global "
            "functions; a process has to register them before it loads the model",
            file,
            ", ".join(map(repr, sorted(functions))),
        )
    listed = Path(f"{file}.ops")
    with replacing(listed) as temporary:
        temporary.write_text(ops_text(definitions.values(), devices), encoding="utf-8")
    return str(listed)


def _calls(model: onnx_ir.Model) -> set[tuple[str, str]]:
    """The names and texts of all calls of ops."""
    found = set()
    graphs: list[onnx_ir.Graph | onnx_ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        for node in graph.all_nodes():
            if CALL in node.attributes:
                found.add((f"{node.domain}::{node.op_type}", node.attributes[CALL].as_string()))
    return found


def _definition(name: str, digest: str) -> Definition:
    definition = definition_of(name)
    if definition is None:
        raise KeyError(
            f"{name}: expected an op of this process, found none; import what defines it"
        )
    if definition.digest != digest:
        raise ValueError(
            f"{name}: expected the definition of which the model has calls, {digest}, got "
            f"{definition.digest}; export the model again"
        )
    return definition
