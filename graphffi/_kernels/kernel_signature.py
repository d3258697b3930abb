# SPDX-License-Identifier: Apache-2.0
"""Checks kernels of ops: their options, and the plan by the signature in the library's metadata."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._contract.attribute_kind import KINDS
from .._contract.dtypes import StatedView
from .._contract.plan import PlanTemplate, results_in_plan
from .._contract.plan_text import plan_tokens
from .._values.describe import counted, describe
from .._values.device import Device
from .._values.dtype import dtype
from .._values.metadata import TENSORS, describe_function, describe_type, parameters_of, view_of
from .._values.module import loaded_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._definition.interface import Interface
    from .op_kernel import OpKernel

# Kinds of values that a plan passes, and the types of parameters that take them. A
# parameter of any other type (a user's class, a variant) may take anything.
_NUMBERS: Final = ("int", "float", "bool")
_TEXTS: Final = ("ffi.String", "std::string", "const char*")
_ARRAYS: Final = ("ffi.Array", "ffi.List", "Tuple", "ffi.Shape")
_TAKEN: Final = {
    "a tensor": TENSORS,
    "an int": ("int", "float", "bool"),
    "a bool": ("bool", "int", "float"),
    "a float": ("float",),
    "a str": (*_TEXTS, "ffi.Bytes", "DataType", "Device"),
    "a dtype": ("DataType",),
    "a device": ("Device",),
    "a list": _ARRAYS,
}
_KNOWN: Final = {*TENSORS, *_NUMBERS, *_TEXTS, *_ARRAYS, "DataType", "Device"}
_LETTERS: Final = {"i": "a tensor", "o": "a tensor", "n": "an int", "f": "a float", "s": "a str"}
_CONVERSIONS: Final = {
    **{kind.name: kind.expected for kind in KINDS.values() if kind.is_converted},
    "int": "an int",
    "strided": "a tensor",
    "workspace": "a tensor",
}


def check_kernel(definition: Interface, kernel: OpKernel) -> None:
    """Refuses a kernel that the op can't have.

    Raises:
        ValueError: For a wrong workspace or plan, and for text that can't be printed.
        TypeError: For a plan that passes what the kernel does not take; for a name or plan that
            is no text.
    """
    for option, text in (("name", kernel.name), ("plan", kernel.plan)):
        if not isinstance(text, str):
            raise TypeError(f"{definition.name}: {option}: expected a str, got {describe(text)}")
        if not "".join(text.split()).isprintable():
            raise ValueError(f"{definition.name}: {option}: expected printable text, got {text!r}")
    size = kernel.workspace
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63
    if not (is_size or size is None or callable(size)):
        raise ValueError(
            f"{definition.name}: workspace: expected bytes (an int from 0 to 2**63 - 1) or a "
            f"callable, got {size!r}"
        )
    template = _template(definition, kernel)
    _core.check_plan(template.plan, template.counts, definition.name)
    named = results_in_plan(template.plan, len(definition.results))
    absent = [name for i, name in enumerate(definition.results) if named and i not in named]
    if template.plan and absent:
        raise ValueError(
            f"{definition.name}: plan {kernel.plan!r}: expected all results, which the kernel "
            f"fills, or none, which it returns; got some without {', '.join(absent)}"
        )
    _check_signature(definition, kernel, template.plan)


def stated_views(definition: Interface, kernel: OpKernel) -> tuple[StatedView, ...]:
    """The tensors that a kernel's parameters state, by operands and results of an op.

    Empty where its library is not loaded, or exports no metadata.

    Raises:
        TypeError: If the kernel writes an operand that the op does not update, or the other way
            round; or takes an operand row-major that the op passes with any strides.
    """
    schema = type_schema(kernel.reference)
    parameters = parameters_of(schema) if schema else None
    if not parameters:
        return ()
    template = _template(definition, kernel)
    names = [side.split(", ") for side in template.names.split(" -> ")]
    banks = dict(zip("io", names, strict=True))
    found = []
    for item, parameter in zip(_items(template.plan), parameters, strict=False):
        token = next((t for t in item if t[0] in banks and t[1:].isdigit()), None)
        view = view_of(parameter)
        if token is not None and item[0] not in ("(", "int") and view is not None:
            name = banks[token[0]][int(token[1:])]
            _check_use(definition, name, view, describe_type(parameter))
            found.append(_stated(name, view))
    return tuple(found)


def _stated(name: str, view: Mapping[str, Any]) -> StatedView:
    kinds = tuple(map(dtype, view["dtypes"]))
    return StatedView(name, kinds, view.get("rank"), Device((view["device"], 0)).type)


def _check_use(definition: Interface, name: str, view: Mapping[str, Any], text: str) -> None:
    subject = f"{definition.name}: operand {name!r}"
    operand = next((o for o in definition.operands if o.name == name), None)
    if operand is None:
        if not view["writes"]:
            raise TypeError(
                f"{definition.name}: result {name!r}: expected a parameter that the kernel "
                f"writes, got {text}"
            )
    elif operand.mutated != view["writes"]:
        expected = "writes" if operand.mutated else "only reads"
        raise TypeError(
            f"{subject}: expected a parameter that the kernel {expected}, got {text}; mutates= "
            "names the operands that it updates"
        )
    if name in definition.strided:
        raise TypeError(f"{subject}: strided: expected a parameter of any strides, got {text}")


def _template(definition: Interface, kernel: OpKernel) -> PlanTemplate:
    """The plan of calls whose lists are empty, which shows if it parses."""
    structures = (
        tuple(0 if o.kind == "list" else -1 for o in definition.operands),
        tuple(0 if a.is_list else -1 for a in definition.attributes),
    )
    return PlanTemplate.make(definition, kernel, *structures)


def _check_signature(definition: Interface, kernel: OpKernel, plan: str) -> None:
    """Compares a definition with a kernel, where the kernel's library is loaded and says more.

    Raises:
        TypeError: If the plan passes more or fewer values than the kernel takes, or one of a kind
            that it does not take.
    """
    if kernel.key is not None and kernel.code is not None:
        _check_python_signature(definition, kernel, plan)
    schema = type_schema(kernel.reference)
    if schema is None or (parameters := parameters_of(schema)) is None:
        return
    kinds = [_kind(item) for item in _items(plan)]
    if len(kinds) == len(parameters) and all(map(_takes, parameters, kinds)):
        return
    subject = f"{definition.name}: plan ({', '.join(_names(definition, kernel))})"
    signature = describe_function(kernel.reference.rpartition("::")[2], schema)
    if len(kinds) != len(parameters):
        raise TypeError(
            f"{subject}: expected {counted(len(parameters), 'value')} for the kernel "
            f"{signature}, got {len(kinds)}"
        )
    problems = [
        f"value {i}: expected {describe_type(parameter)}, got {kind}"
        for i, (kind, parameter) in enumerate(zip(kinds, parameters, strict=True))
        if not _takes(parameter, kind)
    ]
    raise TypeError(f"{subject}: {'; '.join(problems)}; the kernel is {signature}")


def _check_python_signature(definition: Interface, kernel: OpKernel, plan: str) -> None:
    """Compares a plan with a Python function that a factory made."""
    count = len(_items(plan))
    try:
        signature = inspect.signature(kernel.code)
    except (TypeError, ValueError):
        return  # of C
    try:
        signature.bind(*range(count))
    except TypeError:
        name = getattr(kernel.code, "__name__", "function")
        raise TypeError(
            f"{definition.name}: plan ({', '.join(_names(definition, kernel))}): expected a "
            f"function that takes {count} values, got {name}{signature}"
        ) from None


def type_schema(reference: str) -> Mapping[str, Any] | None:
    """A kernel's type by the metadata of its library, if that is loaded."""
    path, _, symbol = reference.rpartition("::")
    module = loaded_module(path) if path else None
    if module is None:
        return None
    metadata = module.get_function_metadata(symbol) or {}
    schema: Mapping[str, Any] | None = metadata.get("type_schema")
    return schema


def _names(definition: Interface, kernel: OpKernel) -> list[str]:
    if kernel.plan:
        return [kernel.plan]
    return [*(p.name for p in definition.parameters), *definition.results]


def _items(plan: str) -> list[list[str]]:
    """The tokens of each value that a plan passes."""
    items: list[list[str]] = [[]]
    depth = 0
    for token in plan_tokens(plan):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            items.append([])
        elif not token.isspace():
            items[-1].append(token)
    return [item for item in items if item]


def _kind(item: list[str]) -> str:
    """The kind of a value, in words; "" for one that any parameter may take."""
    first = item[0]
    if first == "(":
        return "a list"
    if first in _CONVERSIONS and len(item) > 1:
        return _CONVERSIONS[first]
    return _LETTERS.get(first[0], "") if first[1:].isdigit() else ""


def _takes(parameter: Mapping[str, Any], kind: str) -> bool:
    name = str(parameter.get("type", "Any"))
    if name == "Optional":
        return all(_takes(inner, kind) for inner in parameter.get("args", ()))
    return not kind or name not in _KNOWN or name in _TAKEN[kind]
