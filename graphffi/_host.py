# SPDX-License-Identifier: Apache-2.0
"""Ops on NumPy arrays and `graphffi.Tensor`: no graph compiler, the call runs at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphffi import _core
from graphffi._describe import describe, is_tensor
from graphffi._device import Device
from graphffi._dtype import dtype
from graphffi._framework import register_framework
from graphffi._plan import passes_results
from graphffi._spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi._op import Op
    from graphffi._plan import CanonicalCall
    from graphffi._schema import BoundCall


class HostFramework:
    """Results are NumPy arrays where an operand is one, `graphffi.Tensor` otherwise."""

    name = "host"

    def call_op(self, op: Op, bound: BoundCall) -> Any:
        """Runs the op now."""
        definition = op.definition
        operands = [_specs_of(o) for o in bound.operands]
        specs = definition.infer(operands, bound.attributes)
        workspace = definition.workspace_bytes(operands, bound.attributes)
        call = definition.canonical(bound.operands, bound.attributes, workspace)
        outputs = self.call_raw(call, specs)
        fresh, mutated = outputs[: len(specs)], outputs[len(specs) :]
        return definition.pack_results(bound.operands, fresh, mutated)

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Allocates the results and calls the kernel now."""
        tensors = [*call.inputs, *call.mutated]
        use_numpy = any(type(t).__module__ == "numpy" for t in tensors)
        for tensor in call.mutated:
            flags = getattr(tensor, "flags", None)
            if flags is not None and not flags.writeable:
                raise ValueError(
                    f"{call.subject}: operand: expected a writable array to update in place, got "
                    f"read-only "
                    f"{describe(tensor)}"
                )
        is_filled = passes_results(call.plan, len(results))
        fresh = (
            [_allocate(spec, use_numpy) for spec in results] if is_filled else [None] * len(results)
        )
        outputs = [*fresh, *call.mutated]
        returned = _core.call_plan(
            _core.resolve_kernel(call.func),
            call.plan,
            list(call.inputs),
            outputs,
            list(call.ints),
            list(call.floats),
            list(call.strs),
            call.subject,
        )
        if not is_filled:
            outputs[: len(results)] = _checked_returned(call.subject, returned, results)
        return outputs


def _checked_returned(subject: str, returned: Any, results: Sequence[TensorSpec]) -> list[Any]:
    """What a kernel returned that was not given the results to fill."""
    values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(values) != len(results):
        raise TypeError(
            f"{subject}: results: expected {len(results)} returned tensors, got {len(values)}"
        )
    for i, (value, spec) in enumerate(zip(values, results, strict=True)):
        expected = f"{subject}: result {i}: expected {_describe_spec(spec)}, got"
        if not is_tensor(value):
            raise TypeError(
                f"{expected} no tensor; the plan does not pass the result, so that the kernel has "
                "to return it"
            )
        got = _describe_spec(_specs_of(value))
        if dtype(value.dtype) != dtype(spec.dtype):
            raise TypeError(f"{expected} {got}")
        if tuple(value.shape) != tuple(spec.shape):
            raise ValueError(f"{expected} {got}")
    return values


def _describe_spec(spec: TensorSpec) -> str:
    device = "" if spec.device is None else f" on {Device(spec.device)}"
    return f"{dtype(spec.dtype)}[{', '.join(map(str, spec.shape))}]{device}"


def _specs_of(operand: Any) -> Any:
    if operand is None:
        return None
    if isinstance(operand, (list, tuple)):
        return [_specs_of(item) for item in operand]
    device = getattr(operand, "device", "cpu")  # NumPy before 2.0 has none
    return TensorSpec(tuple(operand.shape), dtype(operand.dtype), Device(device))


def _allocate(spec: TensorSpec, use_numpy: bool) -> Any:
    shape = tuple(int(size) for size in spec.shape)
    if use_numpy and (spec.device is None or Device(spec.device).type == "cpu"):
        numpy: Any = sys.modules["numpy"]
        return numpy.empty(shape, dtype=str(dtype(spec.dtype)))
    return _core.empty(
        shape, dtype(spec.dtype), Device("cpu" if spec.device is None else spec.device)
    )


register_framework(HostFramework(), type_prefixes=("numpy", "ml_dtypes", "graphffi"))
