# SPDX-License-Identifier: Apache-2.0
"""Describes the inputs of a package's model: `package_inputs.py` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from graphffi_torch._export.guard_text import Conditions
from graphffi_torch._export.size_guards import (
    add_guards,
    add_strides,
    describe_symbol,
    input_sizes,
    is_row_major,
    keys_of,
    linear_size,
    parameter_names,
    size_guards,
    symbol_texts,
)
from graphffi_torch._export.sizes_of_one import sizes_of_one
from graphffi_torch._export.updates import functionalized
from graphffi_torch._operators.primitive import PRIMITIVES
from graphffi_torch._operators.specs import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Of descriptions: it changes with what `Inputs` reads.
FORMAT: Final = 3
_SIZE: Final = torch.ops.aten.sym_size.int


def describe_inputs(
    exported: torch.export.ExportedProgram, program: torch.export.ExportedProgram
) -> Any:
    """The inputs of a program as JSON values, for `Inputs`.

    Args:
        exported: As it was exported.
        program: What AOTInductor has compiled.

    Returns:
        A dict of the parameters' names, the positional and the keyword arguments, and of the
        conditions on tensors, as a program. Of arguments, a list for a list or tuple, a dict of
        ``keys`` for a dict, a list of ``leaves`` for another node of a pytree, None for what is not
        looked into, otherwise a dict that describes an input.
    """
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    updated = functionalized("package", program).graph_signature.user_inputs_to_mutate.values()
    ones = sizes_of_one(exported)
    specs = zip(
        program.graph_signature.input_specs, exported.graph_signature.input_specs, strict=True
    )
    inputs = [(spec.arg.name, own.arg) for spec, own in specs if spec.kind == InputKind.USER_INPUT]
    ranges = program.range_constraints
    described = [
        _describe_input(own, placeholders.get(name), ranges, ones, is_updated=name in updated)
        for name, own in inputs
    ]
    tensors = [each["name"] for each in described if each and "sizes" in each]
    conditions = Conditions(tensors)
    symbols = symbol_texts(input_sizes(exported))
    for (name, _), each in zip(inputs, described, strict=True):
        if each and "sizes" in each and not (each["is_row_major"] or each["is_checked_by_ops"]):
            add_strides(conditions, each["name"], placeholders[name].meta["val"], symbols)
    guards = size_guards("package", exported, lays_out=False)
    add_guards("package", conditions, guards)
    args, kwargs = _nest(program.call_spec.in_spec, iter(described))
    return {
        "format": FORMAT,
        "names": parameter_names(exported),
        "args": args,
        "kwargs": kwargs,
        "conditions": conditions.text,
    }


def _nest(spec: Any, inputs: Iterator[Any]) -> Any:
    if spec.is_leaf():
        return next(inputs)
    items = [_nest(child, inputs) for child in spec.children()]
    if spec.type in (list, tuple):
        return items
    keys = keys_of(spec)
    if keys is None:
        return {"leaves": list(_leaves(items))}
    return {"keys": dict(zip(keys, items, strict=True))}


def _leaves(items: Any) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list):
            yield from _leaves(item)
        elif isinstance(item, dict) and ("keys" in item or "leaves" in item):
            yield from _leaves(item["keys"].values() if "keys" in item else item["leaves"])
        else:
            yield item


def _describe_input(
    argument: Any,
    node: torch.fx.Node | None,
    ranges: Mapping[Any, Any],
    ones: frozenset[Any],
    *,
    is_updated: bool,
) -> Any:
    if isinstance(argument, ConstantArgument):
        return {"name": argument.name, "value": argument.value}
    value: Any = None if node is None else node.meta.get("val")
    if node is None or not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    readers = {user.target for user in node.users if user.op != "output"}
    return {
        "name": argument.name,
        "dtype": dtype_name(value.dtype),
        "device": value.device.type,
        "sizes": [_describe_size(size, ranges, ones) for size in value.shape],
        "is_row_major": is_row_major(value),
        "is_checked_by_ops": not readers.isdisjoint(PRIMITIVES) and readers <= {*PRIMITIVES, _SIZE},
        "is_updated": is_updated,
    }


def _describe_size(
    size: int | torch.SymInt, ranges: Mapping[Any, Any], ones: frozenset[Any]
) -> Any:
    """A number; the arguments of `_Size`; or None for another expression."""
    if not isinstance(size, torch.SymInt):
        return size
    linear = linear_size(size)
    if linear is None:
        return None
    symbol, multiple, offset = linear
    return [str(symbol), *describe_symbol(size, linear, ranges, ones), multiple, offset]


def dtype_name(dtype: torch.dtype) -> str:
    """Its name, or torch's for one that kernels are not given."""
    return DTYPE_NAMES.get(dtype, str(dtype))
