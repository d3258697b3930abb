# SPDX-License-Identifier: Apache-2.0
"""Signatures in the metadata of functions, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .device import Device

TENSORS: Final = ("DLTensor*", "ffi.Tensor")
"""The types of tensors."""


def describe_type(schema: Mapping[str, Any]) -> str:
    """Return a type of a schema as text, such as ``ffi.Array[ffi.Tensor]``."""
    name = str(schema.get("type", "Any"))
    if name == "ffi.Function" and ("named_args" in schema or "args" in schema):
        return describe_function("", schema)
    if "view" in schema:
        return _describe_view(schema["view"])
    args = [describe_type(arg) for arg in schema.get("args", ())]
    if name == "Optional" and len(args) == 1:
        return f"{args[0]} | None"
    return f"{name}[{', '.join(args)}]" if args else name


def _describe_view(view: Mapping[str, Any]) -> str:
    """As a kernel's source has it: ``View<const float32, 2>``."""
    kinds = " | ".join(view["dtypes"]) or "void"
    rank = f", {view['rank']}" if "rank" in view else ""
    device = Device((view["device"], 0)).type
    on = "" if device == "cpu" else f" on {device}"
    return f"View<{'' if view['writes'] else 'const '}{kinds}{rank}{on}>"


def parameters_of(schema: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The types of a function's parameters; None if its ``type_schema`` does not say.

    Args:
        schema: in the form of any release of TVM FFI: ``named_args`` with ``params`` and
            ``return``, or before 0.1.15 ``args`` with the result first.
    """
    if "named_args" in schema:
        return list(schema["named_args"].get("params", ()))
    return list(schema["args"][1:]) if "args" in schema else None


def view_of(parameter: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The view that a parameter takes, also one that may be None; None for another type."""
    inner = parameter["args"][0] if parameter.get("type") == "Optional" else parameter
    view: Mapping[str, Any] | None = inner.get("view")
    return view


def describe_metadata(name: str, metadata: Mapping[str, Any]) -> str:
    """Return what a library's metadata says of a function: types, or only names of parameters."""
    schema, names = metadata.get("type_schema"), metadata.get("parameters")
    if isinstance(names, list) and schema is None:
        return f"{name}({', '.join(map(str, names))})"
    return describe_function(name, schema if isinstance(schema, dict) else {})


def describe_function(name: str, schema: Mapping[str, Any]) -> str:
    """Return a signature, such as ``add(int, int) -> int``."""
    params = parameters_of(schema)
    if params is None:
        return f"{name}(...)"
    named = schema.get("named_args")
    results = schema["args"][:1] if named is None else list(named.get("return", ()))
    arguments = ", ".join(describe_type(param) for param in params)
    result = describe_type(results[0]) if results else "None"
    return f"{name}({arguments}) -> {result}"
