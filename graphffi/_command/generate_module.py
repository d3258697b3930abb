# SPDX-License-Identifier: Apache-2.0
"""Templates of ops in a Python module, such as those of FlashInfer, as definitions.

A template is an object with ``op_type``, ``axes``, ``inputs`` and ``outputs``. An axis may have a
``value``. An input or output with ``dim_names`` is a tensor; all have ``dtype`` and may have
``param``, ``optional`` and ``dtype_from``.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from .._definition.parameter import is_name
from .generate_trace import Described, fields_of

_PARTS: Final = ("axes", "inputs", "outputs")


def is_module_name(source: str) -> bool:
    """True for ``flashinfer.trace``, not for the path of a file."""
    is_dotted = re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", source) is not None
    return is_dotted and not source.endswith((".so", ".json")) and not Path(source).is_file()


def definitions_of_module(name: str) -> tuple[dict[str, Described], dict[str, str]]:
    """The op of each template in a module and in those below it; names that are left out, and why.

    A template is named as the variable that holds it, without ``_trace`` at the end.

    Raises:
        ValueError: If the module cannot be imported, or has no template.
    """
    left_out: dict[str, str] = {}
    described: dict[str, Described] = {}
    seen: dict[int, Any] = {}
    for module in _modules(name, left_out):
        for variable, value in vars(module).items():
            if not _is_template(value) or id(value) in seen:
                continue
            seen[id(value)] = value
            op = variable.strip("_").removesuffix("_TRACE").removesuffix("_trace")
            if not is_name(op) or op in described:
                left_out[variable] = "another op has its name" if op in described else _NO_NAME
                continue
            described[op] = Described(fields_of(_definition(value)), "")
            if callable(getattr(value, "reference", None)):
                code = f"from {module.__name__} import {variable}\n\nreturn {variable}.reference"
                described[op] = Described(described[op].fields, code)
    if not described:
        raise ValueError(
            f"graphffi generate: {name}: expected a library, .json files, or a module with "
            "templates (op_type, axes, inputs, outputs), got a module without"
        )
    return described, left_out


_NO_NAME: Final = "its name is no identifier of Python"


def _modules(name: str, left_out: dict[str, str]) -> Iterator[ModuleType]:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"graphffi generate: {name}: expected a library, .json files or a module, got a module "
            f"that cannot be imported: {error}"
        ) from None
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
        below = f"{name}.{info.name}"
        try:
            yield from _modules(below, left_out)
        except ValueError as error:
            left_out[below] = str(error).rpartition(", got ")[2]


def _is_template(value: object) -> bool:
    """True for what has all parts; not for classes of such objects."""
    has_parts = all(isinstance(getattr(value, part, None), Mapping) for part in _PARTS)
    return has_parts and isinstance(getattr(value, "op_type", None), str)


def _definition(template: Any) -> dict[str, Any]:
    """The same as a definition of FlashInfer-Bench."""
    axes = {name: {"value": getattr(a, "value", None)} for name, a in template.axes.items()}
    return {
        "axes": axes,
        "inputs": {name: _value(value) for name, value in template.inputs.items()},
        "outputs": {name: _value(value) for name, value in template.outputs.items()},
        "constraints": [*getattr(template, "constraints", ())],
        "description": getattr(template, "description", ""),
    }


def _value(value: Any) -> dict[str, Any]:
    shape = getattr(value, "dim_names", None)
    given = {key: getattr(value, key, None) for key in ("dtype", "param", "optional", "dtype_from")}
    return {"shape": None if shape is None else [*shape], **given}
