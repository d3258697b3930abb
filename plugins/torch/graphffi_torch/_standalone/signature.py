# SPDX-License-Identifier: Apache-2.0
"""The signature of a method of a library: what it takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import sympy  # type: ignore[import-untyped]
import torch
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument

from graphffi.plugin import describe
from graphffi_torch._export.guard_text import Conditions
from graphffi_torch._export.size_guards import (
    add_guards,
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
from graphffi_torch._export.updates import check_not_tied
from graphffi_torch._operators.choice import expression_of
from graphffi_torch._operators.specs import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GUARDED: Final = (-1, 1, -1)  # a size that only guards say


@dataclass(frozen=True)
class Operand:
    """A tensor that a method takes.

    Args:
        name: Of the model's parameter.
        dtype: Its name.
        dims: For each dimension the position of a symbol or -1, what it is multiplied by, and what
            is added; or `_GUARDED`.
        is_updated: Whether the model changes it.
        device: ``"cpu"`` or ``"cuda"``.
    """

    name: str
    dtype: str
    dims: tuple[tuple[int, int, int], ...]
    is_updated: bool
    device: str


@dataclass(frozen=True)
class Node:
    """A part of nested arguments or results.

    Args:
        count: Of what is in it; -1 for a tensor.
        keys: Of a dict, or names of the arguments; None for lists and the like.
    """

    count: int
    keys: tuple[str, ...] | None = None

    @staticmethod
    def all_of(spec: Any) -> list[Node]:
        """The leaves of a pytree."""
        if spec.is_leaf():
            return [Node(-1)]
        children = spec.children()
        node = Node(len(children), keys_of(spec))
        return [node, *(each for child in children for each in Node.all_of(child))]


@dataclass(frozen=True)
class Signature:
    """The operands and results of a method.

    Args:
        name: Of the method.
        operands: In order.
        symbols: Names, smallest and largest values of sizes that calls choose.
        results: For each tensor that it gives an expression of its shape, as shape rules are
            written, and its data type; None where operands' sizes do not decide the shape.
        updated_buffers: Names of the model's buffers that it changes.
        input_nodes: How arguments are nested: all with their names, then each part, and then what
            is in it.
        result_nodes: How results are.
        conditions: A program of relations between the sizes of operands; empty without any.
    """

    name: str
    operands: tuple[Operand, ...]
    symbols: tuple[tuple[str, int, int], ...]
    results: tuple[tuple[str, str] | None, ...]
    updated_buffers: frozenset[str]
    input_nodes: tuple[Node, ...]
    result_nodes: tuple[Node, ...]
    conditions: str

    def op_text(self) -> str | None:
        """The text of the op for `graphffi.load_ops`; None where a result's shape is unknown."""
        known = [result for result in self.results if result is not None]
        if not self.operands or len(known) < len(self.results):
            return None
        operands = ", ".join(
            f"Tensor(a{i}!) {operand.name}" if operand.is_updated else f"Tensor {operand.name}"
            for i, operand in enumerate(self.operands)
        )
        results = ", ".join("Tensor" for _ in known)
        taken = ", ".join(operand.dtype for operand in self.operands)
        given = ", ".join(kind for _, kind in known)
        fields = {
            "schema": f"({operands}) -> {results if len(known) == 1 else f'({results})'}",
            "kernel": f"{self.name}_into",
            "shape": ", ".join(f"empty({shape}, {kind})" for shape, kind in known),
            "dtypes": f"{taken} -> {given}",
            "has_side_effect": "true" if self.updated_buffers else "",
            "doc": f"The method '{self.name}' of a compiled program: {self._described()}.",
        }
        return "\n".join(f"{name}: {text}" for name, text in fields.items() if text)

    def _described(self) -> str:
        return ", ".join(f"{o.name} {self._type(o)}" for o in self.operands)

    def _type(self, operand: Operand) -> str:
        sizes = []
        for dim in operand.dims:
            symbol, multiple, offset = dim
            if dim == _GUARDED:
                sizes.append("?")
                continue
            name = "" if symbol < 0 else self.symbols[symbol][0]
            scaled = f"{multiple}*{name}" if multiple != 1 else name
            sizes.append(f"{scaled}+{offset}" if name and offset else scaled or str(offset))
        return f"{operand.dtype}[{', '.join(sizes)}]"

    @staticmethod
    def of(
        name: str,
        exported: torch.export.ExportedProgram,
        program: torch.export.ExportedProgram,
    ) -> Signature:
        """The signature of a program, as torch knows its sizes by now.

        Args:
            name: Of the method.
            exported: The program.
            program: Of `functionalized`.

        Raises:
            NotImplementedError: For inputs and outputs that are no tensors on the CPU or CUDA,
                inputs that are not contiguous, and guards that cannot be checked.
            ValueError: If two inputs were one tensor in the example.
        """
        subject = f"to_library: {name}"
        check_not_tied(subject, exported)
        guards = size_guards(subject, exported, lays_out=True)
        reader = _SignatureReader(name, program, sizes_of_one(exported))
        signature = program.graph_signature
        updated = set(signature.user_inputs_to_mutate.values())
        nodes = {node.name: node for node in program.graph.nodes}
        operands = []
        for spec in signature.input_specs:
            if spec.kind != InputKind.USER_INPUT:
                continue
            node = nodes.get(spec.arg.name)
            value: Any = None if node is None else node.meta.get("val")
            if not isinstance(spec.arg, TensorArgument) or not isinstance(value, torch.Tensor):
                reader.refuse(f"input '{spec.arg.name}'", "a tensor", _describe(spec.arg))
            operands.append(reader.operand(spec.arg.name, value, spec.arg.name in updated))
        conditions = Conditions([operand.name for operand in operands], "operand")
        add_guards(subject, conditions, guards)
        results = []
        outputs = [s for s in signature.output_specs if s.kind.name == "USER_OUTPUT"]
        for i, spec in enumerate(outputs):
            if not isinstance(spec.arg, TensorArgument):
                reader.refuse(f"result {i}", "a tensor", _describe(spec.arg))
            results.append(reader.result(nodes[spec.arg.name].meta.get("val")))
        return Signature(
            name,
            tuple(operands),
            tuple(reader.symbols.values()),
            tuple(results),
            frozenset(signature.buffers_to_mutate.values()),
            *_nested(program, parameter_names(exported)),
            conditions.text,
        )


def _describe(argument: Any) -> str:
    if isinstance(argument, ConstantArgument):
        return describe(argument.value)
    return "a number that calls choose"


def _nested(
    program: torch.export.ExportedProgram, names: Sequence[str]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The nesting of arguments, those by keyword behind the others, and of results."""
    given, results = program.call_spec.in_spec, program.call_spec.out_spec
    children = [child for kind in given.children() for child in kind.children()]
    root = Node(len(children), tuple(names) if len(names) == len(children) else None)
    inputs = [root, *(node for child in children for node in Node.all_of(child))]
    return tuple(inputs), tuple(Node.all_of(results))


class _SignatureReader:
    def __init__(
        self, name: str, program: torch.export.ExportedProgram, ones: frozenset[Any]
    ) -> None:
        self._name = name
        self._ones = ones
        self._ranges: Mapping[Any, Any] = program.range_constraints
        self._texts = symbol_texts(input_sizes(program))
        self._positions: dict[Any, int] = {}
        self.symbols: dict[Any, tuple[str, int, int]] = {}

    def operand(self, name: str, value: torch.Tensor, is_updated: bool) -> Operand:
        device = value.device.type
        if device not in ("cpu", "cuda") or value.dtype not in DTYPE_NAMES:
            expected = "a tensor on cpu or cuda"
            self.refuse(f"input '{name}'", expected, f"{value.dtype} on {value.device}")
        if not is_row_major(value):
            raise NotImplementedError(
                f"graphffi_torch: to_library: {self._name}: input '{name}': expected a contiguous "
                f"tensor in the example, got the strides {list(value.stride())}; export with "
                f"{name}.contiguous()"
            )
        dims = tuple(map(self._dim, value.shape))
        return Operand(name, DTYPE_NAMES[value.dtype], dims, is_updated, device)

    def _dim(self, size: Any) -> tuple[int, int, int]:
        if not isinstance(size, torch.SymInt):
            return -1, 1, int(size)
        expression = size.node.expr
        if not expression.free_symbols:
            return -1, 1, int(expression)
        linear = linear_size(size)
        if linear is None:
            return _GUARDED
        symbol, multiple, offset = linear
        self._positions.setdefault(symbol, len(self._positions))
        own, low, high = describe_symbol(size, linear, self._ranges, self._ones)
        _, lower, upper = self.symbols.get(symbol, (own, low, high))
        self.symbols[symbol] = own, max(low, lower), min(high, upper)
        return self._positions[symbol], multiple, offset

    def result(self, value: Any) -> tuple[str, str] | None:
        """An expression for a result's shape, and its data type."""
        if not isinstance(value, torch.Tensor) or value.dtype not in DTYPE_NAMES:
            return None
        dims: list[Any] = list(value.shape)
        shape = [expression_text(expression_of(size), self._texts) for size in dims]
        if None in shape:
            return None
        return f"[{', '.join(map(str, shape))}]", DTYPE_NAMES[value.dtype]

    def refuse(self, what: str, expected: str, got: str) -> NoReturn:
        raise NotImplementedError(
            f"graphffi_torch: to_library: {self._name}: {what}: expected {expected}, got {got}; "
            "pass tensors, and numbers as tensors without dimensions"
        )


_OPERATIONS: Final = {"FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%"}


def expression_text(value: Any, sizes: Mapping[str, str]) -> str | None:
    """A size as shape rules are written; None for what those do not know.

    Args:
        value: A number, or an expression of sympy.
        sizes: Of `symbol_texts`.
    """
    if isinstance(value, (int, sympy.Integer)):
        return str(int(value))
    if str(value) in sizes:
        return sizes[str(value)]
    kind, arguments = type(value).__name__, value.args
    if kind == "Pow" and value.exp.is_Integer and value.exp > 0:
        kind, arguments = "Mul", [value.base] * int(value.exp)
    parts = [expression_text(part, sizes) for part in arguments]
    joined = {"Add": " + ", "Mul": " * "}.get(kind, f" {_OPERATIONS.get(kind)} ")
    if not parts or None in parts or (kind not in ("Add", "Mul") and kind not in _OPERATIONS):
        return None
    return f"({joined.join(map(str, parts))})"
