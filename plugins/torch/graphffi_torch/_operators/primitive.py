# SPDX-License-Identifier: Apache-2.0
"""A call of an op's operator as a call of `tvm_ffi::call` or one of its variants."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import MISSING, call_device, flat
from graphffi_torch._operators.choice import (
    chosen_kernel,
    run_rule,
    smallest,
    takes_sizes_for_granted,
)
from graphffi_torch._operators.effects import put_back, register_side_effect
from graphffi_torch._operators.operator_schema import arguments_by_name, overload_of
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
        digest: Changes with the definition; may carry names, see `call_site.h`.
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
        values = {
            a.name: a.to_graph(a.default) for a in definition.attributes if a.default is not MISSING
        }
        values.update(arguments_by_name(definition, args, kwargs))
        return PrimitiveCall(
            definition,
            [values.get(o.name) for o in definition.operands],
            [values[a.name] for a in definition.attributes],
            [values[name] for name in definition.results]
            if overload_of(operator) == "out"
            else None,
        )

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
            ``mylib::rms_norm(x, weight -> out) 0123456789abcdef``; with ``x:float32[b h=6]`` for
            ``x`` and so on if they are described: call_site.h says how.
        """
        definition = self.definition
        groups: Any = None if definition.dims is None else iter(definition.dims.operands)
        is_limited = described and takes_sizes_for_granted(definition, *self.rule_arguments())
        inputs: list[str] = []
        updated: list[str] = []
        for operand, value in zip(definition.operands, self.operands, strict=True):
            group = groups and next(groups)
            is_list = isinstance(value, (list, tuple))
            for i, tensor in enumerate(flat(value)):
                name = f"{operand.name}[{i}]" if is_list else operand.name
                mark = "!" if operand.mutated else ""
                text = f":{mark}{_description(tensor, group, is_limited)}" if described else ""
                (updated if operand.mutated else inputs).append(name + text)
        outputs = list(definition.results)
        if described:
            given = [None] * len(results) if definition.dims is None else definition.dims.results
            outputs = [
                f"{name}:{_description(tensor, group, False)}"
                for name, tensor, group in zip(outputs, results, given, strict=True)
            ]
        outputs += updated
        return f"{definition.name}({', '.join(inputs)} -> {', '.join(outputs)}) {definition.digest}"


def _description(tensor: torch.Tensor, group: Any, is_limited: bool) -> str:
    """Data type and dimensions of a tensor, as far as the traced program depends on them."""
    names = ["_"] * tensor.ndim
    if group is not None:
        names = [f"...{i}" for i in range(tensor.ndim - len(group.names))] + list(group.names)
    dims = zip(names, tensor.shape, strict=True)
    shown = " ".join(_dimension(name, size, is_limited) for name, size in dims)
    return f"{DTYPE_NAMES.get(tensor.dtype, '_')}[{shown}]"


def _dimension(name: str, size: Any, is_limited: bool) -> str:
    if isinstance(size, int):
        return name if name.isdigit() else f"{name}={size}"
    expression = size.node.expr
    name = f".{expression}" if name == "_" and expression.is_Symbol else name
    least = smallest(size) if is_limited else 0
    return f"{name}>={least}" if least > 0 and not name.isdigit() else name
