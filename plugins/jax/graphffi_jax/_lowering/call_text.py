# SPDX-License-Identifier: Apache-2.0
"""The program that XLA gets for one part of a call, as text: the call, or loops around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.extend.mlir import ir
from jax.interpreters import mlir

from graphffi_jax._lowering.call_dims import CallDims


def module_text(
    target: str, call: ir.DictAttr, dims: CallDims, operands: Sequence[Any], results: Sequence[Any]
) -> str:
    """A program that makes a call.

    Args:
        target: Of the custom call.
        call: Its attributes.
        dims: Of its arrays; those of loops come first.
        operands: XLA's shapes of the arrays that the program gets.
        results: And of those that it returns.
    """
    types = [[_type(shape) for shape in side] for side in (operands, results)]
    names = [f"%arg{i}" for i in range(len(operands))]
    sizes = _loop_sizes(dims, operands)
    if sizes:
        lines, returned = _loops(target, call, dims, names, types, sizes)
    else:
        lines, returned = _call(target, call, names, types)
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types[0], strict=True))
    signature = ", ".join(map(str, types[1]))
    lines.append(f"return {', '.join(returned)} : {signature}" if returned else "return")
    body = "\n".join(lines)
    return f"module {{ func.func public @main({parameters}) -> ({signature}) {{\n{body}\n}} }}"


def _type(shape: Any) -> Any:
    dtype = mlir.dtype_to_ir_type(shape.numpy_dtype())
    with ir.Location.unknown():
        return ir.RankedTensorType.get(shape.dimensions(), dtype)


def _call(
    target: str, call: ir.DictAttr, names: Sequence[str], types: Sequence[Sequence[Any]]
) -> tuple[list[str], list[str]]:
    """The custom call, and the names of its results."""
    operands, results = types
    mutated = _number(call, "mutated")
    first_mutated = len(operands) - mutated
    first_updated = len(results) - mutated - ("workspace" in call)
    layouts = [", ".join(_layout(t.rank) for t in side) for side in types]
    aliases = ", ".join(
        "#stablehlo.output_operand_alias<output_tuple_indices = "
        f"[{first_updated + i if len(results) > 1 else ''}], operand_index = {first_mutated + i}, "
        "operand_tuple_indices = []>"
        for i in range(mutated)
    )
    returned = [f"%call#{i}" for i in range(len(results))]
    # A part is not split again.
    attributes = (call[i] for i in range(len(call)))
    config = ir.DictAttr.get({a.name: a.attr for a in attributes if a.name != "dims"})
    line = (
        f"{f'%call:{len(results)} = ' if results else ''}stablehlo.custom_call "
        f"@{target}({', '.join(names)}) {{api_version = 4 : i32, "
        f"backend_config = {config}, has_side_effect = "
        f"{str('has_side_effect' in call).lower()}, operand_layouts = [{layouts[0]}], "
        f"result_layouts = [{layouts[1]}], output_operand_aliases = [{aliases}]}} : "
        f"({', '.join(map(str, operands))}) -> ({', '.join(map(str, results))})"
    )
    return [line], returned


def _layout(ndim: int) -> str:
    numbers = str(list(reversed(range(ndim)))) if ndim else ""
    return f"dense<{numbers}> : tensor<{ndim}xindex>"


def _loops_of(dims: Sequence[str]) -> list[int]:
    """The loops that leading dimensions of an array belong to."""
    return [int(name[1:]) for name in dims if name.startswith("@")]


def _loop_sizes(dims: CallDims, operands: Sequence[Any]) -> list[int]:
    """The number of times that each loop runs."""
    found: dict[int, int] = {}
    for array, shape in zip(dims.operands, operands, strict=True):
        found.update(zip(_loops_of(array.dims), shape.dimensions(), strict=False))
    return [found[k] for k in sorted(found)]


def _loops(
    target: str,
    call: ir.DictAttr,
    dims: CallDims,
    names: Sequence[str],
    types: Sequence[Sequence[Any]],
    sizes: Sequence[int],
) -> tuple[list[str], list[str]]:
    """One loop over all combinations of indices; its state are the arrays of the program."""
    results = [f"%out{i}" for i in range(len(types[1]))]
    lines = [f"{n} = {_zeros(t)}" for n, t in zip(results, types[1], strict=True)]
    if 0 in sizes:
        return lines, results
    state = [f"%in{i}" for i in range(len(names) + len(results))]
    state_types = ", ".join(["tensor<i64>", *map(str, (*types[0], *types[1]))])
    started = zip(["%i", *state], ["%zero", *names, *results], strict=True)
    body, returned = _body(target, call, dims, state, types)
    lines += [
        "%zero = stablehlo.constant dense<0> : tensor<i64>",
        f"%loop:{1 + len(state)} = stablehlo.while("
        f"{', '.join(f'{a} = {b}' for a, b in started)}) : {state_types}",
        "cond {",
        f"%count = stablehlo.constant dense<{math.prod(sizes)}> : tensor<i64>",
        "%more = stablehlo.compare LT, %i, %count : (tensor<i64>, tensor<i64>) -> tensor<i1>",
        "stablehlo.return %more : tensor<i1>",
        "} do {",
        *_indices(sizes),
        *body,
        f"stablehlo.return {', '.join(['%next', *returned])} : {state_types}",
        "}",
    ]
    return lines, [f"%loop#{1 + len(names) + i}" for i in range(len(results))]


def _body(
    target: str,
    call: ir.DictAttr,
    dims: CallDims,
    state: Sequence[str],
    types: Sequence[Sequence[Any]],
) -> tuple[list[str], list[str]]:
    """One call on elements of the arrays in `state`, and the arrays afterwards."""
    operands, results = (
        [_loops_of(array.dims) for array in s] for s in (dims.operands, dims.results)
    )
    item_types = [
        [_part(t, len(own), 0) for t, own in zip(side, loops, strict=True)]
        for side, loops in zip(types, (operands, results), strict=True)
    ]
    lines, items = [], []
    for array, own, array_type, item in zip(state, operands, types[0], item_types[0], strict=False):
        items.append(f"{array}_item" if own else array)
        if own:
            lines += _read(items[-1], array, array_type, item, own)
    called, returned = _call(target, call, items, item_types)
    lines += called
    after = list(state[: len(operands)])
    outputs = zip(state[len(operands) :], results, types[1], returned, item_types[1], strict=True)
    for array, own, array_type, value, item in outputs:
        after.append(f"{array}_new" if own else array)  # a workspace is nobody's result
        if own:
            lines += _write(after[-1], array, array_type, value, item, own)
    return lines, after


def _indices(sizes: Sequence[int]) -> list[str]:
    """The index in each loop, of the number of the step."""
    lines = [
        "%0 = stablehlo.constant dense<0> : tensor<i64>",
        "%1 = stablehlo.constant dense<1> : tensor<i64>",
        "%next = stablehlo.add %i, %1 : tensor<i64>",
    ]
    for k, size in enumerate(sizes):
        stride = math.prod(sizes[k + 1 :])
        lines += [
            f"%stride{k} = stablehlo.constant dense<{stride}> : tensor<i64>",
            f"%size{k} = stablehlo.constant dense<{size}> : tensor<i64>",
            f"%step{k} = stablehlo.divide %i, %stride{k} : tensor<i64>",
            f"%at{k} = stablehlo.remainder %step{k}, %size{k} : tensor<i64>",
        ]
    return lines


def _part(array: Any, num_loops: int, num_ones: int) -> Any:
    """The type of an element of a batch; of a slice that holds it, with as many ones in front."""
    with ir.Location.unknown():
        shape = [*[1] * num_ones, *array.shape[num_loops:]]
        return ir.RankedTensorType.get(shape, array.element_type)


def _starts(array: Any, loops: Sequence[int]) -> tuple[str, str]:
    """The slice's begin: values, and their types."""
    starts = [f"%at{k}" for k in loops] + ["%0"] * (array.rank - len(loops))
    return ", ".join(starts), ", ".join(["tensor<i64>"] * array.rank)


def _read(name: str, array: str, array_type: Any, item: Any, loops: Sequence[int]) -> list[str]:
    part = _part(array_type, len(loops), len(loops))
    starts, start_types = _starts(array_type, loops)
    return [
        f"{name}_part = stablehlo.dynamic_slice {array}, {starts}, sizes = {list(part.shape)} : "
        f"({array_type}, {start_types}) -> {part}",
        f"{name} = stablehlo.reshape {name}_part : ({part}) -> {item}",
    ]


def _write(
    name: str, array: str, array_type: Any, value: str, item: Any, loops: Sequence[int]
) -> list[str]:
    part = _part(array_type, len(loops), len(loops))
    starts, start_types = _starts(array_type, loops)
    return [
        f"{name}_part = stablehlo.reshape {value} : ({item}) -> {part}",
        f"{name} = stablehlo.dynamic_update_slice {array}, {name}_part, {starts} : "
        f"({array_type}, {part}, {start_types}) -> {array_type}",
    ]


def _zeros(array: Any) -> str:
    element = array.element_type
    is_complex = isinstance(element, ir.ComplexType)
    bits = 2 * element.element_type.width if is_complex else element.width
    return f'stablehlo.constant dense<"0x{"00" * max(1, bits // 8)}"> : {array}'


def _number(call: ir.DictAttr, name: str) -> int:
    return ir.IntegerAttr(call[name]).value if name in call else 0
