# SPDX-License-Identifier: Apache-2.0
"""A call of an op's operator as a call of `tvm_ffi::call`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi import Definition


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
        schema = operator._schema
        values = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        values.update(zip((a.name for a in schema.arguments), args, strict=False))
        values.update(kwargs)
        return PrimitiveCall(
            definition,
            [values[o.name] for o in definition.operands],
            [values[a.name] for a in definition.attributes],
            None
            if schema.returns or not definition.results
            else [values[name] for name in definition.results],
        )

    def arguments(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of `tvm_ffi::call`.

        Args:
            results: What is to be filled.
        """
        call = self.definition.canonical(self.operands, self.attributes)
        outputs = [*results, *call.mutated]
        return (
            call.func,
            call.inputs,
            outputs,
            call.plan,
            call.ints,
            call.floats,
            call.strs,
            self._label(),
        )

    def _label(self) -> str:
        """The digest of the call: also for errors, which C++ reads it for, and for readers.

        Returns:
            ``mylib::rms_norm(x, weight -> out) 0123456789abcdef``
        """
        definition = self.definition
        inputs: list[str] = []
        outputs = list(definition.results)
        for operand, value in zip(definition.operands, self.operands, strict=True):
            names = outputs if operand.mutated else inputs
            if isinstance(value, (list, tuple)):
                names.extend(f"{operand.name}[{i}]" for i in range(len(value)))
            elif value is not None:
                names.append(operand.name)
        return f"{definition.name}({', '.join(inputs)} -> {', '.join(outputs)}) {definition.digest}"
