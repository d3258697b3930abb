# SPDX-License-Identifier: Apache-2.0
"""A call of an op's operator as a call of `tvm_ffi::call` or one of its variants."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi import dtype
from graphffi.plugin import call_device, flat
from graphffi_torch._export.guard_text import Conditions
from graphffi_torch._operators.choice import (
    chosen_kernel,
    largest,
    run_rule,
    smallest,
    takes_sizes_for_granted,
)
from graphffi_torch._operators.effects import put_back, register_side_effect
from graphffi_torch._operators.operator_schema import argument_values, overload_of
from graphffi_torch._operators.specs import DTYPE_NAMES, rule_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi.plugin import CallTraits, CanonicalCall, Definition, OpKernel

CALL: Final = torch.ops.tvm_ffi.call.default
#: For kernels that may be recorded into CUDA graphs.
CALL_GRAPH: Final = torch.ops.tvm_ffi.call_graph.default
#: For calls with side effects. It returns changed copies of the outputs that it is given.
CALL_EFFECT: Final = torch.ops.tvm_ffi.call_effect.default
PRIMITIVES: Final = (CALL, CALL_GRAPH, CALL_EFFECT)
register_side_effect(CALL_EFFECT)


def primitive_of(traits: CallTraits | None) -> Any:
    """The operator that calls kernels of such traits."""
    if traits is None:
        return CALL
    if traits.has_side_effect:
        return CALL_EFFECT
    return CALL_GRAPH if traits.allow_cuda_graph else CALL


@dataclass(frozen=True)
class Primitive:
    """The arguments of a primitive, as its schema has them.

    Args:
        func: Kernel reference.
        inputs: Tensors that are only read, and None.
        outputs: The results to fill, then what is updated.
        plan: Plan text over the canonical names.
        ints: 64-bit integers.
        floats: Doubles.
        strs: Strings.
        digest: Changes with the definition; may carry names and conditions, see `call_site.h`.
    """

    func: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    plan: str = ""
    ints: Sequence[Any] = ()
    floats: Sequence[float] = ()
    strs: Sequence[str] = ()
    digest: str = ""

    @staticmethod
    def of(call: CanonicalCall, results: Sequence[Any], digest: str) -> Primitive:
        """The arguments of one call."""
        return Primitive(
            call.func,
            call.inputs,
            [*results, *call.mutated],
            call.plan,
            call.ints,
            call.floats,
            call.strs,
            digest,
        )

    def arguments(self) -> tuple[Any, ...]:
        """In the order of the schema."""
        return tuple(getattr(self, field.name) for field in fields(self))


def call_primitive(
    traits: CallTraits | None, call: Primitive, num_mutated: int
) -> list[torch.Tensor]:
    """Calls a kernel, and gives the outputs."""
    primitive, outputs = primitive_of(traits), call.outputs
    returned = primitive(*call.arguments())
    if primitive is not CALL_EFFECT:
        return list(outputs)
    mutated = outputs[len(outputs) - num_mutated :]
    return [*put_back(returned, len(outputs) - num_mutated, mutated), *mutated]


@dataclass(frozen=True)
class PrimitiveCall:
    """The arguments of an operator's call, sorted.

    Args:
        definition: Of the op.
        operands: One tensor (or node, or buffer), None or list per operand.
        attributes: One value per attribute, as the operator takes it.
        outputs: What the call of `ns::name.out` is given to fill; None for `ns::name`.
    """

    definition: Definition
    operands: Sequence[Any]
    attributes: Sequence[Any]
    outputs: Sequence[Any] | None

    @staticmethod
    def of(
        definition: Definition, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> PrimitiveCall:
        """Matches arguments with the operator's schema."""
        operands, attributes = definition.split(argument_values(definition, args, kwargs))
        has_outputs = overload_of(operator) == "out"
        outputs = [kwargs[name] for name in definition.results] if has_outputs else None
        return PrimitiveCall(definition, operands, attributes, outputs)

    def primitive(
        self, kernel: OpKernel, results: Sequence[Any], workspace: Any, *, described: bool = False
    ) -> Primitive:
        """The arguments of the primitive.

        Args:
            kernel: That the call runs.
            results: What is to be filled.
            workspace: What `workspace_bytes` gave.
            described: Whether the call checks that its tensors are like these: for programs whose
                inputs nobody else checks.
        """
        call = self.definition.canonical(kernel, self.operands, self.attributes, workspace)
        return Primitive.of(call, results, self._label(described=described, results=results))

    def rule_arguments(self) -> tuple[list[Any], list[Any]]:
        """The operands, which are tensors, and attributes as the definition's rules get them."""
        return rule_arguments(self.definition, self.operands, self.attributes)

    def kernel(self, *, is_guarded: bool) -> tuple[OpKernel, Any]:
        """The kernel of a call whose operands are tensors.

        Returns:
            With the size of its workspace, an int or a `torch.SymInt`, if it takes one whose size
            follows a rule.
        """
        definition = self.definition
        if not definition.is_looked_at:
            return definition.candidates[0], None
        operands, attributes = self.rule_arguments()
        device = call_device(operands, run_rule(definition.infer, operands, attributes))
        kernel = chosen_kernel(definition, operands, attributes, device, is_guarded=is_guarded)
        if not definition.takes_ruled_workspace(kernel):
            return kernel, None
        size = functools.partial(definition.workspace_bytes, kernel)
        return kernel, run_rule(size, operands, attributes)

    def _label(self, *, described: bool, results: Sequence[Any]) -> str:
        """The digest of the call: also for errors, which C++ reads it for, and for readers.

        Returns:
            ``mylib::rms_norm(x, weight -> out) 0123456789abcdef``; if they are described, with
            conditions behind it: call_site.h says how.
        """
        definition = self.definition
        groups: Any = None if definition.dims is None else iter(definition.dims.operands)
        inputs: list[tuple[str, Any, Any]] = []
        updated: list[tuple[str, Any, Any]] = []
        for operand, value in zip(definition.operands, self.operands, strict=True):
            group = groups and next(groups)
            is_list = isinstance(value, (list, tuple))
            for i, tensor in enumerate(flat(value)):
                name = f"{operand.name}[{i}]" if is_list else operand.name
                (updated if operand.mutated else inputs).append((name, tensor, group))
        outputs = [*definition.results, *(name for name, _, _ in updated)]
        names = ", ".join(name for name, _, _ in inputs)
        label = f"{definition.name}({names} -> {', '.join(outputs)}) {definition.digest}"
        if not described:
            return label
        is_limited = takes_sizes_for_granted(definition, *self.rule_arguments())
        given = [None] * len(results) if definition.dims is None else definition.dims.results
        made = list(zip(definition.results, results, given, strict=True))
        conditions = _TensorConditions()
        # As eager code meets them: operands first.
        for i, (name, tensor, group) in enumerate(inputs):
            conditions.add(i, f"operand '{name}'", tensor, group, is_limited)
        for i, (name, tensor, group) in enumerate(updated, len(inputs) + len(made)):
            conditions.add(i, f"operand '{name}'", tensor, group, is_limited)
        for i, (name, tensor, group) in enumerate(made, len(inputs)):
            conditions.add(i, f"result '{name}'", tensor, group, False)
        # In one line: Inductor writes nodes into comments of code that it generates.
        return "\t".join((label, *conditions.text().splitlines()))


class _TensorConditions:
    """Conditions that tensors are like those of a traced call, as far as its program depends on it.

    Dimensions of one name have one size, with the messages that the op's `dims` give in eager code.
    """

    def __init__(self) -> None:
        self._program = Conditions()
        self._first: dict[str, tuple[int, str]] = {}  # size and tensor of each name
        self._checks: tuple[list[Any], list[Any], list[Any]] = ([], [], [])  # in this order

    def add(self, position: int, what: str, tensor: Any, group: Any, is_limited: bool) -> None:
        self._add_kind(position, what, tensor)
        names = ["_"] * tensor.ndim
        if group is not None:
            names = [f"...{i}" for i in range(tensor.ndim - len(group.names))] + list(group.names)
        for i, (name, size) in enumerate(zip(names, tensor.shape, strict=True)):
            self._add_size(position, what, i, name, size, is_limited)

    def text(self) -> str:
        for value, message, kind in (each for kinds in self._checks for each in kinds):
            self._program.check(value, message, kind)
        return self._program.text

    def _add_kind(self, position: int, what: str, tensor: Any) -> None:
        give, export = self._program.give, "as in the exported program"
        name = DTYPE_NAMES.get(tensor.dtype)
        found = give("dtype", position)
        if name is None:
            is_right = give("ge", found, give("const 0"))
        else:
            kind = dtype(name)
            is_right = give("eq", found, give(f"const {kind.code * 2**24 + kind.bits * 2**16 + 1}"))
        expected = f"{what}: expected {name or 'a tensor'} {export}, got {{d{position}}}"
        rank = give("ndim", position)
        has_rank = give("eq", rank, give(f"const {tensor.ndim}"))
        dimensions = f"{what}: expected {tensor.ndim} dimensions {export}, got {{{rank}}}"
        self._checks[0].append((is_right, expected, "TypeError"))
        self._checks[0].append((has_rank, dimensions, "ValueError"))

    def _add_size(
        self, position: int, what: str, i: int, name: str, size: Any, is_limited: bool
    ) -> None:
        give = self._program.give
        own = give("size", position, i)
        if name == "_" and not isinstance(size, int) and size.node.expr.is_Symbol:
            name = f".{size.node.expr}"
        is_named = name != "_" and name[0] != "." and not name.isdigit()
        dimension = f"'{name}'" if is_named else f"dimension {i}"

        def check(phase: int, comparison: str, other: int, shown: str, where: str) -> None:
            message = f"{what}: expected size {shown} of {dimension} as in {where}, got {{{own}}}"
            self._checks[phase].append((give(comparison, own, other), message, "ValueError"))

        if name.isdigit():
            check(1, "eq", give(f"const {name}"), name, "dims")
            return
        if name in self._first:
            other, where = self._first[name]
            check(1, "eq", other, f"{{{other}}}", where)
        elif name != "_":
            self._first[name] = own, what
        if isinstance(size, int):
            check(2, "eq", give(f"const {size}"), str(size), "the exported program")
        elif is_limited:
            least, opt_most = smallest(size), largest(size)
            check(2, "ge", give(f"const {least}"), f"{least} or more", "the exported program")
            if opt_most is not None:
                most = f"{opt_most} or less"
                check(2, "le", give(f"const {opt_most}"), most, "the exported program")
