# SPDX-License-Identifier: Apache-2.0
"""Ops on NumPy arrays and `graphffi.Tensor`: no graph compiler, the call runs at once."""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import operator
import sys
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._contract.plan import passes_results, strided_tensors
from .._contract.spec import TensorSpec, checked_dtype, spec_text
from .._definition.binding import BoundCall
from .._kernels.library import split_reference
from .._kernels.op_kernel import call_device
from .._values.describe import describe, is_tensor
from .._values.device import Device
from .._values.dtype import dtype
from .._values.nested import per_tensor
from .._values.tensor import numpy_dtype, numpy_from_dlpack
from .framework import Framework, register_framework, tracing_framework
from .updates import check_updated, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._contract.plan import CanonicalCall
    from .._definition.defined_op import DefinedOp
    from .._definition.definition import Definition
    from .._kernels.op_kernel import OpKernel


# Values that kernels get unchanged, and the devices of NumPy arrays.
_PLAIN: Final = (int, float, bool, str, type(None))
_ON_HOST: Final = (None, "cpu")

# Calls of equal shapes, data types and attributes have equal results: rules are asked once for each
# of that many.
_MAX_KNOWN: Final = 1024


class HostFramework(Framework):
    """Results are NumPy arrays where an operand is one, `graphffi.Tensor` otherwise."""

    name = "host"

    def __init__(self) -> None:
        """Knows no call yet."""
        self._known: dict[Any, tuple[tuple[TensorSpec, ...], OpKernel, Any]] = {}
        self._kernels: dict[str, Any] = {}  # those of libraries: global ones may be replaced

    def call_op(self, op: DefinedOp, definition: Definition, bound: BoundCall) -> Any:
        """Runs the op now, as the definition says that bound the arguments."""
        operands = (
            value if o.mutated else _with_arrays(value)
            for o, value in zip(definition.operands, bound.operands, strict=True)
        )
        bound = BoundCall(tuple(operands), bound.attributes)
        specs, kernel, workspace = self._inferred(definition, bound)
        if kernel.is_reference:
            outputs = _run_reference(definition, bound, specs)
        else:
            call = definition.canonical(kernel, bound.operands, bound.attributes, workspace)
            outputs = self.call_raw(call, specs)
        fresh, mutated = outputs[: len(specs)], outputs[len(specs) :]
        return definition.pack_results(bound.operands, fresh, mutated)

    def replace_op(self, op: DefinedOp) -> None:
        """Forgets calls of the former definition, which keeps all that its kernels refer to."""
        self._known.clear()

    def use_library(self, path: str, is_new: bool) -> None:
        """Forgets the kernels of a library that was built anew."""
        if is_new:
            self._kernels.clear()

    def copy(self, tensor: Any) -> Any:
        """A copy; `graphffi.Tensor` for one."""
        copied = self.to_numpy(tensor).copy()
        return _core.from_dlpack(copied) if isinstance(tensor, _core.Tensor) else copied

    def to_numpy(self, tensor: Any) -> Any:
        """The memory itself."""
        return numpy_from_dlpack(tensor) if isinstance(tensor, _core.Tensor) else tensor

    def _inferred(
        self, definition: Definition, bound: BoundCall
    ) -> tuple[tuple[TensorSpec, ...], OpKernel, Any]:
        """The results to allocate for a call, its kernel, and the size of its workspace."""
        key = (definition, _key_of(bound.operands), _key_of(bound.attributes))
        known = self._known.get(key)
        if known is None:
            operands = [
                _spec_of(value, f"{definition.name}: operand {o.name!r}")
                for o, value in zip(definition.operands, bound.operands, strict=True)
            ]
            specs = definition.infer(operands, bound.attributes)
            kernel = definition.choose(operands, bound.attributes, call_device(operands, specs))
            workspace = definition.workspace_bytes(kernel, operands, bound.attributes)
            known = specs, kernel, workspace
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    def _kernel(self, reference: str) -> Any:
        kernel = self._kernels.get(reference)
        if kernel is None:
            kernel = _core.resolve_kernel(reference)
            if split_reference(reference)[0]:
                self._kernels[reference] = kernel
        return kernel

    def call_plain(
        self, spec_type: type, reference: str, args: tuple[Any, ...], out: Any, mutates: Any
    ) -> Any:
        """Makes a call with row-major arrays of NumPy and plain values, and one result or none."""
        updated = _plain_updated(args, mutates)
        if updated is None:  # first: what belongs to traced tensors can't be compared below
            return NotImplemented
        fresh = _plain_results(spec_type, out)
        if fresh is None or not (updated or fresh):
            return NotImplemented
        if tracing_framework() is not None or _core.is_debugging:
            return NotImplemented
        values = (*args, *fresh)
        if _core.call_in_order(self._kernel(reference), values, reference) is NotImplemented:
            return NotImplemented
        results = [*fresh, *updated]
        return results[0] if len(results) == 1 else tuple(results)

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Allocates the results and calls the kernel now."""
        check_updated(call, len(results))
        tensors = [*call.inputs, *call.mutated]
        use_numpy = _has_array(tensors)
        is_filled = passes_results(call.plan, len(results))
        fresh = (
            [
                _allocate(f"{call.subject}: result {i}", spec, use_numpy)
                for i, spec in enumerate(results)
            ]
            if is_filled
            else [None] * len(results)
        )
        passed = _row_major(call, len(results))
        inputs, updated = passed[: len(call.inputs)], passed[len(call.inputs) :]
        outputs = [*fresh, *updated]
        returned = _core.call_plan(
            self._kernel(call.func),
            call.plan,
            inputs,
            outputs,
            list(call.ints),
            list(call.floats),
            list(call.strs),
            call.subject,
            len(results),
            call.names,
        )
        for tensor, copy in zip(call.mutated, updated, strict=True):
            if copy is not tensor:
                tensor[...] = copy
        outputs[len(results) :] = call.mutated
        if not is_filled:
            outputs[: len(results)] = _checked_returned(call.subject, returned, results)
        return outputs


def _has_array(tensors: Sequence[Any]) -> bool:
    ndarray = _of_numpy("ndarray")
    return any(isinstance(t, ndarray) for t in tensors)


def _of_numpy(name: str) -> Any:
    """A class of NumPy; one without instances as long as no thread has imported it."""
    return getattr(sys.modules.get("numpy"), name, ())


def _run_reference(
    definition: Definition, bound: BoundCall, specs: Sequence[TensorSpec]
) -> list[Any]:
    """Does with NumPy what a call of the kernel would."""
    assert definition.reference is not None
    numpy: Any = sys.modules.get("numpy") or importlib.import_module("numpy")
    operands = [per_tensor(host.to_numpy)(operand) for operand in bound.operands]
    found = definition.reference.run(definition, operands, bound.attributes, specs)
    mutated = definition.updated(bound.operands)
    for tensor, new in zip(mutated, found[len(specs) :], strict=True):
        host.to_numpy(tensor)[...] = new
    fresh = [numpy.array(result, order="C") for result in found[: len(specs)]]
    if not _has_array(bound.tensors()):
        fresh = [_core.from_dlpack(result) for result in fresh]
    return [*fresh, *mutated]


def _row_major(call: CanonicalCall, num_results: int) -> list[Any]:
    """The inputs and the updated tensors, or copies whose elements stand row by row, aligned."""
    strided = strided_tensors(call.plan)
    names = [f"i{i}" for i in range(len(call.inputs))]
    names += [f"o{i}" for i in range(num_results, num_results + len(call.mutated))]
    tensors = [*call.inputs, *call.mutated]
    for i, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        flags = getattr(tensor, "flags", None)
        if name in strided:
            continue
        if flags is not None and not (flags.c_contiguous and flags.aligned):
            tensors[i] = sys.modules["numpy"].array(tensor, order="C")
        elif isinstance(tensor, _core.Tensor) and not _is_row_major(tensor):
            raise ValueError(
                f"{call.subject}: {name_of(call, num_results, i)}: expected a row-major tensor, "
                f"got strides {tensor.strides} of {describe(tensor)}; pass a copy, or say strided= "
                "in the op's definition"
            )
    return tensors


def _is_row_major(tensor: _core.Tensor) -> bool:
    expected = 1
    if 0 in tensor.shape:
        return True
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _plain_updated(args: tuple[Any, ...], mutates: Any) -> list[Any] | None:
    """The arrays that a plain call updates; None where it is not plain."""
    if type(mutates) is not tuple:
        return None
    array, has_array = _of_numpy("ndarray"), False
    for value in args:
        if type(value) is array and value.flags.c_contiguous:
            has_array = True
        elif type(value) not in _PLAIN or not _is_simple(value):
            return None
    if any(type(i) is not int or not 0 <= i < len(args) for i in mutates):
        return None
    positions = sorted(set(mutates))
    updated = [args[i] for i in positions]
    if not has_array or any(type(a) is not array or not a.flags.writeable for a in updated):
        return None
    others = ((args[i], a) for i in positions for k, a in enumerate(args) if k != i)
    if any(type(b) is array and sys.modules["numpy"].may_share_memory(a, b) for a, b in others):
        return None
    return updated


def _is_simple(value: Any) -> bool:
    """True if no conversion of a plain value can fail."""
    if type(value) is int:
        return bool(value.bit_length() < 64)
    return type(value) is not str or value.isascii()


def _plain_results(spec_type: Any, out: Any) -> list[Any] | None:
    """The results of a plain call; None where it is not plain."""
    if out is None:
        return []
    if type(out) is not spec_type or out.device not in _ON_HOST:
        return None
    if any(type(size) is not int or size < 0 for size in out.shape):
        return None
    numpy: Any = sys.modules["numpy"]
    return [numpy.empty(out.shape, out.dtype)] if isinstance(out.dtype, numpy.dtype) else None


def _with_arrays(operand: Any) -> Any:
    """The operand with NumPy's scalars as arrays, which kernels would get as numbers."""
    if isinstance(operand, (list, tuple)):
        return [_with_arrays(item) for item in operand]
    kind: Any = type(operand)
    if not _is_scalar(kind):
        return operand
    return sys.modules["numpy"].asarray(operand)


@functools.lru_cache(maxsize=64)
def _is_scalar(kind: type) -> bool:
    return issubclass(kind, _of_numpy("generic"))


def _checked_returned(subject: str, returned: Any, results: Sequence[TensorSpec]) -> list[Any]:
    """The results that a kernel returned, as it was not given them to fill; copies of them."""
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
        got = _describe_spec(_spec_of(value, f"{subject}: result {i}"))
        if dtype(value.dtype) != dtype(spec.dtype):
            raise TypeError(f"{expected} {got}")
        if tuple(value.shape) != tuple(spec.shape):
            raise ValueError(f"{expected} {got}")
        if not _is_row_major(_core.from_dlpack(value)):
            raise ValueError(
                f"{subject}: result {i}: expected a row-major contiguous tensor, got other strides"
            )
    return [_copied(value) for value in values]


def _copied(returned: Any) -> Any:
    """A tensor of its own: a kernel may return an operand's memory, or memory that it keeps."""
    if _has_array([returned]):
        return returned.copy()
    if returned.device.type != "cpu":
        return returned  # the core has no copies there
    own = _core.empty(returned.shape, returned.dtype)
    num_bits = math.prod(returned.shape) * returned.dtype.bits * returned.dtype.lanes
    ctypes.memmove(own.data_ptr, returned.data_ptr, (num_bits + 7) // 8)
    return own


def _describe_spec(spec: TensorSpec) -> str:
    device = "" if spec.device is None else f" on {Device(spec.device)}"
    return f"{spec_text(spec)}{device}"


def _key_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """The key of a call: everything that rules can tell of operands or attributes."""
    return tuple(
        _key_of(value)
        if isinstance(value, (list, tuple))
        else (value.shape, value.dtype, getattr(value, "device", None))
        if hasattr(value, "__dlpack__")
        else repr(value)  # which tells -0.0 from 0.0
        if type(value) is float
        else value
        for value in values
    )


@per_tensor
def _spec_of(tensor: Any, subject: str) -> TensorSpec:
    if isinstance(tensor, TensorSpec):
        raise TypeError(f"{subject}: expected a tensor, got a TensorSpec, which has no elements")
    device = getattr(tensor, "device", "cpu")  # NumPy before 2.0 has none
    kind = checked_dtype(subject, tensor.dtype)
    if _has_array([tensor]):
        _check_elements(subject, tensor.dtype, kind)
    return TensorSpec(tuple(tensor.shape), kind, Device(device))


def _check_elements(subject: str, numpys: Any, kind: dtype) -> None:
    """Refuses data types of NumPy whose elements are not in memory as kernels expect them."""
    is_long = numpys.kind == "f" and numpys.itemsize > 8  # no number of IEEE 754 on all machines
    if is_long or numpys.itemsize * 8 != kind.bits * kind.lanes:
        raise TypeError(
            f"{subject}: expected a data type that kernels can take, got {kind}, whose elements "
            "NumPy pads; pass them as another data type"
        )


def _allocate(subject: str, spec: TensorSpec, use_numpy: bool) -> Any:
    try:
        shape = tuple(map(operator.index, spec.shape))
    except TypeError:
        raise TypeError(f"{subject}: expected sizes (ints), got {tuple(spec.shape)}") from None
    if use_numpy and (spec.device is None or Device(spec.device).type == "cpu"):
        numpy: Any = sys.modules["numpy"]
        made = numpy.empty(shape, dtype=numpy_dtype(spec.dtype, subject))
        _check_elements(subject, made.dtype, dtype(spec.dtype))
        return made
    return _core.empty(
        shape, dtype(spec.dtype), Device("cpu" if spec.device is None else spec.device)
    )


host: Final = HostFramework()
register_framework(host, type_prefixes=("numpy", "ml_dtypes", "graphffi"))
