# SPDX-License-Identifier: Apache-2.0
"""The calls of an op that torch.compile traces.

`Op.__call__` checks arguments with loops over the op's definition. Tracing those would cost
seconds, and a guard for each object that they touch. So every op has a function of its own, written
out like the methods of a dataclass, that holds what it needs as constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi import Device
from graphffi.plugin import MISSING, Attribute, Operand
from graphffi_torch._operator_schema import DIGEST, graph_digest
from graphffi_torch._specs import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphffi.plugin import Definition

# Attributes of exactly these types need no conversion; dtypes and devices travel by name.
_EXACT: Final = {"int": "int", "float": "float", "bool": "bool"}
# Conversions of what callers usually give instead.
_CONVERSIONS: Final = {"float": "to_float", "dtype": "to_name", "device": "to_name"}


def make_traced_call(definition: Definition, operator: Any) -> Callable[..., Any]:
    """A function with the arguments and results of the op, which calls `operator` and little else.

    Arguments that need a conversion, and wrong ones, take the way of `Definition.bind`.

    Args:
        definition: Of the op.
        operator: Its operator, `torch.ops.<namespace>.<name>.default`, or what stands for it.
    """
    namespace = {
        "operator": operator,
        "Tensor": torch.Tensor,
        "to_float": _to_float,
        "to_name": _to_name,
        "MISSING": MISSING,
        "result_type": definition.result_type,
        "bind": _make_bind(definition),
        "is_tensor_list": _is_tensor_list,
        "is_list_of": _is_list_of,
    }
    name = definition.name.partition("::")[2]
    exec(compile(_source(name, definition), f"<graphffi op {definition.name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(item, torch.Tensor) for item in value
    )


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, (list, tuple)) and all(type(item) is kind for item in value)


def _to_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _to_name(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return DTYPE_NAMES[value]
    if isinstance(value, (torch.device, Device)):
        return str(value)
    # A graphffi.dtype is a string, of which Dynamo makes a plain one in no other way.
    return "".join((value,)) if isinstance(value, str) else value


def _make_bind(definition: Definition) -> Callable[..., list[Any]]:
    def bind(args: Any, kwargs: Any) -> list[Any]:
        return operator_arguments(definition, definition.bind(args, kwargs))

    return bind


def operator_arguments(definition: Definition, bound: Any) -> list[Any]:
    """The arguments of the op's operator: operands and attributes in signature order."""
    operands, attributes = iter(bound.operands), iter(bound.attributes)
    return [
        next(operands) if isinstance(p, Operand) else operator_value(p, next(attributes))
        for p in definition.parameters
    ]


def operator_value(attribute: Attribute, value: Any) -> Any:
    """A converted attribute as its operator takes it: dtypes and devices by name."""
    if attribute.kind not in ("dtype", "device") or value is None:
        return value
    return [str(item) for item in value] if attribute.is_list else str(value)


def _source(name: str, definition: Definition) -> str:
    lines = [
        f"def {name}(*args, **kwargs):",
        f"    values = dict(zip({(*(p.name for p in definition.parameters), '')!r}, args))",
        "    values.update(kwargs)",
        "    good = len(values) == len(args) + len(kwargs)",
    ]
    for parameter in definition.parameters:
        lines.extend(f"    {line}" for line in _parameter_source(parameter))
    arguments = ", ".join(f"v_{p.name}" for p in definition.parameters)
    lines.append("    if values or not good:")
    lines.append(f"        ({arguments},) = bind(args, kwargs)")
    lines.extend(
        f"    {line}"
        for line in _result_source(
            definition, f"operator({arguments}, {DIGEST}={graph_digest(definition.digest)!r})"
        )
    )
    return "\n".join(lines)


def _parameter_source(parameter: Operand | Attribute) -> list[str]:
    value = f"v_{parameter.name}"
    default = _default_source(parameter)
    if default is None:
        lines, indent = [f"{value} = values.pop({parameter.name!r}, MISSING)"], ""
    else:
        # Torch 2.10 can't trace `v is MISSING` where v is a symbolic int.
        lines = [
            f"if {parameter.name!r} in values:",
            f"    {value} = values.pop({parameter.name!r})",
        ]
        indent = "    "
    if isinstance(parameter, Attribute) and parameter.kind in _CONVERSIONS:
        convert = _CONVERSIONS[parameter.kind]
        converted = f"{convert}({value})"
        if parameter.is_list:
            is_list = f"isinstance({value}, (list, tuple))"
            converted = f"[{convert}(item) for item in {value}] if {is_list} else {value}"
        lines.append(f"{indent}{value} = {converted}")
    lines.append(f"{indent}good = good and {_test_source(parameter, value)}")
    if default is not None:
        lines.extend(("else:", f"    {value} = {default}"))
    return lines


def _default_source(parameter: Operand | Attribute) -> str | None:
    if isinstance(parameter, Operand):
        return None if parameter.required else "None"
    if parameter.default is MISSING:
        return None
    default = operator_value(parameter, parameter.default)
    # Infinities and NaN are no literals.
    return f"float('{default}')" if isinstance(default, float) else repr(default)


def _test_source(parameter: Operand | Attribute, value: str) -> str:
    if isinstance(parameter, Operand):
        if parameter.kind == "list":
            return f"is_tensor_list({value})"
        test = f"isinstance({value}, Tensor)"
        return test if parameter.kind == "tensor" else f"({value} is None or {test})"
    exact = _EXACT.get(parameter.kind, "str")
    test = f"is_list_of({value}, {exact})" if parameter.is_list else f"type({value}) is {exact}"
    return f"({value} is None or {test})" if parameter.optional else test


def _result_source(definition: Definition, call: str) -> list[str]:
    mutated = [
        f"list(v_{o.name})" if o.kind == "list" else f"v_{o.name}"
        for o in definition.operands
        if o.mutated
    ]
    count = len(definition.results)
    if not mutated:
        if count == 1:
            return [f"return {call}"]
        return [
            f"return {call}" if definition.result_type is None else f"return result_type(*{call})"
        ]
    if count == 0:
        return [
            call,
            f"return {mutated[0] if len(mutated) == 1 else '(' + ', '.join(mutated) + ')'}",
        ]
    fresh = "results" if count == 1 else "*results"
    return [f"results = {call}", f"return ({fresh}, {', '.join(mutated)})"]
