# SPDX-License-Identifier: Apache-2.0
"""Definitions of FlashInfer-Bench, JSON files, as definitions of ops.

Such a file has axes (of any size, or constants), inputs and outputs with shapes over the axes and
data types, scalars without a shape, and a reference in PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._definition.define_text import define_text
from .._definition.parameter import is_name


def trace_blocks(paths: Sequence[str], namespace: str) -> dict[str, str]:
    """The definition of an op for each file, and its reference.

    Raises:
        ValueError: If a file is none of these definitions.
    """
    blocks = {}
    for path in paths:
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            name, fields = found["name"], _fields(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"graphffi generate: {path}: expected a definition with name, axes, inputs and "
                f"outputs, got one without: {error}"
            ) from None
        if not is_name(name):
            raise ValueError(
                f"graphffi generate: {path}: name: expected an identifier of Python, got {name!r}"
            )
        text = define_text(f"{namespace}::{name}", "", fields)
        blocks[name] = text + _reference(name, found.get("reference", ""))
    return blocks


def _fields(found: Mapping[str, Any]) -> dict[str, str]:
    axes = {
        name: str(axis["value"]) if axis["type"] == "const" else f"[{name}]"
        for name, axis in found["axes"].items()
    }
    inputs, outputs = found["inputs"], found["outputs"]
    tensors = {name: value for name, value in inputs.items() if value["shape"] is not None}
    parameters = ", ".join(
        f"Tensor {name}" if name in tensors else f"{_scalar(value['dtype'])} {name}"
        for name, value in inputs.items()
    )
    results = ", ".join(f"Tensor {name}" for name in outputs)
    known = {axis for value in tensors.values() for axis in value["shape"]}
    sides = [
        ", ".join(" ".join(axes[axis] for axis in value["shape"]) for value in side)
        for side in (tensors.values(), outputs.values())
    ]
    kinds = [
        ", ".join(value["dtype"] for value in side) for side in (tensors.values(), outputs.values())
    ]
    fields = {
        "schema": f"({parameters}) -> ({results})",
        "dims": " -> ".join(sides),
        "dtypes": " -> ".join(kinds),
        "shape": "",
        "doc": found.get("description") or "",
    }
    unknown = {
        axis
        for value in outputs.values()
        for axis in value["shape"]
        if axis not in known and axes[axis].startswith("[")
    }
    if unknown:
        fields["shape"] = "TODO"
    return fields


def _scalar(kind: str) -> str:
    return "bool" if kind == "bool" else "int" if kind.startswith(("int", "uint")) else "float"


def _reference(name: str, code: str) -> str:
    """A function that gives the reference, which imports what it needs."""
    if not code:
        return ""
    lines = "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
    return f"\n\ndef reference_of_{name}():\n{lines}\n    return run\n"
