# SPDX-License-Identifier: Apache-2.0
"""``graphffi inspect``: what is in a library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._definition.op_text import op_texts, parse_op_text
from .._kernels.elf_texts import exported_texts
from .._values.metadata import describe_metadata
from .._values.module import Module, load_module
from .outcome import Outcome


def inspect_library(path: str) -> Outcome:
    """Lists functions, ops and imports.

    Raises:
        RuntimeError: If it does not load.
        ValueError: If an op's text does not parse.
    """
    module = load_module(path)
    assert module.path is not None
    ops = {name: parse_op_text(name, text) for name, text in op_texts(module.path).items()}
    graph = exported_texts(module.path, "__graphffi_graph_").get("library", "")
    facts: dict[str, Any] = {
        "path": module.path,
        "kind": module.kind,
        "functions": list(_functions(module)),
        "ops": ops,
        "graph": dict(line.split(": ", 1) for line in graph.splitlines()),
        "imports": [_import(imported) for imported in module.imports],
    }
    lines = [f"{module.path}: {module.kind}"]
    for function in facts["functions"]:
        doc = function["doc"]
        lines.append(f"  {function['signature']}" + (f"  # {doc.splitlines()[0]}" if doc else ""))
    for name, fields in ops.items():
        lines.append(f"  op {name}{fields['schema']}")
        lines += [f"    {key}: {fields[key]}" for key in fields if key not in ("schema", "doc")]
    lines += [f"  {line}" for line in graph.splitlines()]
    lines += _import_lines(facts["imports"], "  ")
    return Outcome(facts, lines)


def _functions(module: Module) -> Iterator[dict[str, Any]]:
    for name in module.function_names():
        if module.implements_function(name, query_imports=True):
            metadata = module.get_function_metadata(name, query_imports=True) or {}
            yield {
                "name": name,
                "signature": describe_metadata(name, metadata),
                "doc": module.get_function_doc(name, query_imports=True) or "",
                "metadata": metadata,
            }


def _import(module: Module) -> dict[str, Any]:
    return {"kind": module.kind, "imports": [_import(imported) for imported in module.imports]}


def _import_lines(imports: list[dict[str, Any]], indent: str) -> Iterator[str]:
    for imported in imports:
        yield f"{indent}imports {imported['kind']}"
        yield from _import_lines(imported["imports"], indent + "  ")
