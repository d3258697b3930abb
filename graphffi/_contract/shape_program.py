# SPDX-License-Identifier: Apache-2.0
"""Shape rules as programs: traced once for each structure of calls, then run in C++.

csrc/shapes/shape_program.h has the text of programs.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .._kernels.op_kernel import call_device
from .._log import kernel_log
from .._values.device import Device
from .._values.dtype import dtype
from .._values.error import FactoryError
from .._values.nested import per_tensor
from .size import is_symbolic
from .spec import TensorSpec, check_count, checked_bytes
from .trace import NeedsValuesError, Trace, hint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._definition.definition import Definition
    from .._kernels.op_kernel import OpKernel

# A rule that can't be traced this often is only asked from then on.
_MAX_FAILURES: Final = 3
_T = TypeVar("_T", bound=Trace)


def trace_shape_rule(definition: Definition) -> Callable[..., str]:
    """Makes the function that C++ asks for the results of a call that no program is for.

    The function that is returned takes `(inputs, mutated, attributes, trace)`: the operands that
    are only read, those that are updated, and the attributes, each in signature order. A tensor is
    `(shape, (code, bits, lanes), (device_type, device_id))`; a dtype or device attribute is its
    tuple. It gives the results, the number of the kernel if it is not the first, and the bytes of a
    workspace whose size follows a rule, as a program of constants; and, if `trace` is true and the
    rules could be traced, the program of calls like it. Its attribute `made` gives the factory and
    the reference of a kernel whose number is none of the candidates'.
    """
    name, failures = definition.name, 0

    def answer(
        inputs: Sequence[Any], mutated: Sequence[Any], attributes: Sequence[Any], trace: bool
    ) -> str:
        nonlocal failures
        untraced: Exception | None = None
        operands = [_specs(operand) for operand in _in_order(definition, inputs, mutated)]
        values = [
            _attribute(a.kind, v) for a, v in zip(definition.attributes, attributes, strict=True)
        ]
        if trace and failures < _MAX_FAILURES:
            try:
                return _traced(definition, operands, values)
            except FactoryError:
                raise
            # Whatever the rules raise: again in a moment, unless it is of the trace alone.
            except Exception as error:
                untraced = error
        try:
            found = _ask(definition, operands, values)  # which raises if the call is wrong
        except NeedsValuesError:
            found = None
        if found is None or any(is_symbolic(size) for spec in found.specs for size in spec.shape):
            raise RuntimeError(
                f"{definition.name}: shape rule: expected sizes and attributes of this call, got "
                "one that was kept from an earlier call"
            )
        lines = _constant_lines(definition, found)
        if untraced is not None:
            failures += 1
            kernel_log().info(
                "%s: rules: run in each call, as they can't be traced: %r", name, untraced
            )
        return lines

    setattr(answer, "made", definition.factory_and_reference)  # noqa: B010
    return answer


def _in_order(definition: Definition, inputs: Sequence[Any], mutated: Sequence[Any]) -> list[Any]:
    read, updated = iter(inputs), iter(mutated)
    return [next(updated if o.mutated else read) for o in definition.operands]


def _specs(operand: Any) -> Any:
    if operand is None:
        return None
    if isinstance(operand, list):
        return [_specs(item) for item in operand]
    shape, data_type, device = operand
    return TensorSpec(shape, dtype.from_dlpack_type(*data_type), Device(device))


def _attribute(kind: str, value: Any) -> Any:
    if value is None or kind not in ("dtype", "device"):
        return value
    convert = _dtype_of if kind == "dtype" else Device
    return [convert(item) for item in value] if isinstance(value, list) else convert(value)


def _dtype_of(value: tuple[int, int, int]) -> dtype:
    return dtype.from_dlpack_type(*value)


def _traced(definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]) -> str:
    """The results of a call, and the program of calls like it."""
    rules = trace_rules(definition, operands, attributes, Trace)
    same = [f"same {i}" for i in rules.fixed]
    return "\n".join((f"{rules.results}program", *rules.trace.lines, *same, *rules.lines, ""))


@dataclass(frozen=True)
class TracedRules(Generic[_T]):
    """The rules of an op, as they ran for a call.

    Args:
        trace: What they did.
        found: Their answer.
        results: The lines of a program of constants, which gives the results of the call.
        lines: The program's lines behind those of the trace.
        again: Runs them once more with the values of the trace.
    """

    trace: _T
    found: Answer
    results: str
    lines: list[str]
    again: Callable[[], Answer]

    @property
    def fixed(self) -> list[int]:
        """The numbers of attributes that are no ints, which other calls have to have, too."""
        return sorted(~i for i in self.trace.known if i < 0)


def trace_rules(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    make: Callable[[frozenset[int]], _T],
) -> TracedRules[_T]:
    """Runs the rules with what `make` gives of the numbers of known values.

    They run until they have been given the value of every attribute that they look at.
    """
    known: frozenset[int] = frozenset()
    while True:
        trace = make(known)
        values = _load_operands(trace, definition, operands), _load_attributes(trace, attributes)
        again = functools.partial(_ask, definition, *values)
        try:
            found = trace.run(again)
            results = _constant_lines(definition, found)
            lines = _result_lines(found, trace.number)
        except NeedsValuesError as missing:
            if missing.values <= known:
                raise RuntimeError("a value was kept from an earlier trace") from None
            known |= missing.values
            continue
        return TracedRules(trace, found, results, lines, again)


@dataclass(frozen=True)
class Answer:
    """The answer of the rules for a call.

    Args:
        kernel: That the call runs.
        number: Of the kernel.
        specs: Of the results.
        workspace: Bytes, if the kernel takes a workspace whose size follows a rule.
    """

    kernel: OpKernel
    number: int
    specs: tuple[TensorSpec, ...]
    workspace: Any

    @property
    def kernel_lines(self) -> list[str]:
        """None for the first kernel."""
        return [f"kernel {self.number}"] if self.number else []


def _ask(definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]) -> Answer:
    specs = definition.infer(operands, attributes)
    kernel = definition.choose(operands, attributes, call_device(operands, specs))
    workspace = None
    if definition.takes_ruled_workspace(kernel):
        workspace = definition.workspace_bytes(kernel, operands, attributes)
        if is_symbolic(workspace):
            checked_bytes(f"{definition.name}: workspace", hint_of(workspace))
    return Answer(kernel, definition.kernel_number(kernel), specs, workspace)


def _load_operands(trace: Trace, definition: Definition, operands: Sequence[Any]) -> list[Any]:
    pairs = list(zip(definition.operands, operands, strict=True))
    inputs = [_load(operand, trace) for o, operand in pairs if not o.mutated]
    mutated = [_load(operand, trace) for o, operand in pairs if o.mutated]
    return _in_order(definition, inputs, mutated)


@per_tensor
def _load(spec: TensorSpec, trace: Trace) -> TensorSpec:
    return TensorSpec(tuple(map(trace.load, spec.shape)), spec.dtype, spec.device)


def _load_attributes(trace: Trace, attributes: Sequence[Any]) -> list[Any]:
    numbers = itertools.count()
    return [
        [trace.load_attribute(next(numbers), item) for item in value]
        if isinstance(value, list)
        else trace.load_attribute(next(numbers), value)
        for value in attributes
    ]


def _constant_lines(definition: Definition, found: Answer) -> str:
    """A program whose constants are the sizes of the call."""
    for i, spec in enumerate(found.specs):
        _check_result(definition, i, spec)
    constants = Trace()
    lines = _result_lines(found, lambda size: constants.number(hint_of(size)))
    return "".join(f"{line}\n" for line in (*constants.lines, *lines))


def _check_result(definition: Definition, i: int, spec: TensorSpec) -> None:
    sizes = [hint_of(size) for size in spec.shape]
    if any(size < 0 for size in sizes):
        raise ValueError(
            f"{definition.name}: shape rule: result {definition.results[i]!r}: expected sizes of 0 "
            f"or more, got {tuple(spec.shape)}"
        )
    check_count(f"{definition.name}: shape rule: result {definition.results[i]!r}", sizes)


def _result_lines(found: Answer, number: Callable[[Any], int]) -> list[str]:
    """The program's lines that say the answer; `number` gives the number of a size's value."""
    lines = list(found.kernel_lines)
    for spec in found.specs:
        numbers = map(number, spec.shape)
        lines.append(" ".join(map(str, ("result", *_types(spec), len(spec.shape), *numbers))))
    if found.workspace is not None:
        lines.append(f"workspace {number(found.workspace)}")
    return lines


def _types(spec: TensorSpec) -> tuple[int, ...]:
    device = Device("cpu" if spec.device is None else spec.device)
    kind = spec.dtype
    return kind.code, kind.bits, kind.lanes, device.dlpack_type, device.index
