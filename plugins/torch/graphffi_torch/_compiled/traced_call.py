# SPDX-License-Identifier: Apache-2.0
"""The calls of an op that torch.compile traces.

Dynamo follows Python code bytecode by bytecode, and adds guards for the objects that it meets:
`Definition.bind` would take it seconds. So every op has a function of its own, written out like the
methods of a dataclass, which checks that a call is right and makes the operator's call. Functions
of constants, such as `_to_name`, Dynamo calls instead of following them.

Imported with Dynamo; uses public names of torch.
"""

from __future__ import annotations

import itertools
import sys
import types
import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    guard_scalar,
    statically_known_true,
)

from graphffi import Device, Op, dtype
from graphffi.plugin import (
    MISSING,
    NUMBERS,
    as_constant,
    is_int64,
    is_known,
    is_tensor,
    plain_text,
    report_to_tracer,
    symbol_kind,
    to_device,
    to_dtype,
)
from graphffi_torch._compiled.exact_float import exact_float
from graphffi_torch._compiled.traced_call_source import source_of
from graphffi_torch._operators.effects import distinct
from graphffi_torch._operators.operator_schema import (
    graph_digest,
    operator_arguments,
    why_no_operand,
    with_signs,
)
from graphffi_torch._operators.specs import DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition


_calls: Final = itertools.count()  # of ops with ``recompute=False``, while they are traced


def install() -> None:
    """Tells Dynamo what takes the place of functions that it meets."""
    constants = (
        _to_name,
        _is,
        _are,
        _is_static_by_default,
        _find_places,
        _text_of,
        distinct,
        why_no_operand,
        with_signs,
    )
    substitutes = {
        is_int64: _traced_is_int64,
        is_known: _traced_is_known,
        as_constant: _traced_as_constant,
        _varies: _traced_varies,
        _to_float: _traced_to_float,
        _to_bool: _traced_to_bool,
        **{function: _copy(function) for function in constants},
    }
    for function, substitute in substitutes.items():
        # Calls with constants are made, others become calls of the substitute.
        torch.compiler.substitute_in_graph(function, can_constant_fold_through=True)(substitute)
    # There, a symbol is of the type that it stands for.
    torch.compiler.substitute_in_graph(symbol_kind)(lambda value: None)
    torch.compiler.substitute_in_graph(to_dtype)(_traced_to_dtype)
    torch.compiler.substitute_in_graph(to_device)(_traced_to_device)
    # A call where the graph breaks is an eager one, all of it.
    disable: Any = torch.compiler.disable
    setattr(Op, "call_eagerly", disable(Op.call_eagerly))  # noqa: B010


def make_traced_call(definition: Definition, operator: Any) -> Callable[..., Any]:
    """A function with the arguments and results of the op, which calls `operator` and little else.

    Wrong arguments, and those that need other conversions, take the way of `Definition.bind`.
    """
    namespace = {
        "operator": operator,
        "Tensor": torch.Tensor,
        "Device": Device,
        "dtype": dtype,
        "MISSING": MISSING,
        "result_type": definition.result_type,
        "bind": _make_bind(definition),
        "digest": _make_digest(definition),
        "with_signs": with_signs,
        "find_places": _find_places,
        "are_tensors": _are_tensors,
        "is_": _is,
        "are": _are,
        "varies": _varies,
        "warn": _make_warning(definition),
        "exact": exact_float,
        "to_float": _to_float,
        "to_bool": _to_bool,
        "to_name": _to_name,
    }
    # Written out, since Dynamo takes its time for each instruction. Beside this, measured on torch
    # 2.13 with graphs of 50 calls, closures over tables of parameters took 1.4 to 1.9 times as
    # long.
    # With functions of types and constants, which Dynamo calls, in place of loops, it was 1.06 to
    # 1.1 for calls with two tensors, and 1.15 to 1.2 for an update with one attribute.
    exec(compile(source_of(definition), f"<graphffi op {definition.name}>", "exec"), namespace)
    # Named alike for all ops: an op may have the name of what the code refers to, such as `list`.
    function: Callable[..., Any] = namespace["graphffi_traced_call"]
    return function


def _make_digest(definition: Definition) -> Callable[[], str]:
    """A function that Dynamo calls while it traces: values that rules refer to may have changed."""

    def digest() -> str:
        digest = graph_digest(definition.traced_digest())
        if not definition.recompute:  # which two calls do not share
            return f"{digest}.{next(_calls)}"
        return distinct(digest) if definition.has_side_effect else digest

    mark: Any = torch.compiler.assume_constant_result
    function: Callable[[], str] = mark(digest)
    return function


def _make_bind(definition: Definition) -> Callable[..., list[Any]]:
    """A function that checks and converts arguments as eager code does, for the operator."""
    kinds = {p.name: p.kind for p in definition.attributes}
    names = [p.name for p in definition.parameters]
    ndarray: Any = getattr(sys.modules.get("numpy"), "ndarray", ())

    def bind(args: Any, named: Any) -> list[Any]:
        def plain(name: str, value: Any) -> Any:
            if kinds.get(name) == "float":
                value = _with_exact_floats(value)
            return _plain(value, ndarray) if name in kinds else value

        positional = list(map(plain, [*names, *[""] * len(args)], args))
        by_name = {name: plain(name, value) for name, value in named.items()}
        bound = definition.bind(positional, by_name)
        refuse_arrays(bound.operands)
        return operator_arguments(definition, bound)

    def refuse_arrays(operands: Any) -> None:
        # Alone, arrays of NumPy are torch's tensors to torch.compile.
        tensors = [
            (operand.name, tensor)
            for operand, value in zip(definition.operands, operands, strict=True)
            for tensor in (value if isinstance(value, (list, tuple)) else [value])
        ]
        if any(isinstance(tensor, torch.Tensor) for _, tensor in tensors):
            for name, tensor in tensors:
                if isinstance(tensor, ndarray):
                    reason = why_no_operand(f"{definition.name}: operand {name!r}", ndarray)
                    report_to_tracer("TypeError", reason)

    return bind


def _plain(value: Any, ndarray: Any) -> Any:
    """An attribute without what Dynamo cannot follow."""
    if isinstance(value, ndarray):  # or a number of NumPy's, which Dynamo does not know as such
        return torch.as_tensor(value)
    # Conversions of these never end in torch 2.13.
    return value.value if isinstance(value, Enum) and isinstance(value, (int, str)) else value


def _with_exact_floats(value: Any) -> Any:
    """A float attribute, or a list of them, as constants, if they have a value."""
    if isinstance(value, (list, tuple)):
        return [_with_exact_floats(item) for item in value]
    return as_constant(exact_float(value))


def _make_warning(definition: Definition) -> Callable[[str], None]:
    """A function that Dynamo calls while it traces, for a float that the program changes."""
    warned = set()

    def warn(attribute: str) -> None:
        if attribute not in warned:
            warned.add(attribute)
            warnings.warn(
                f"{definition.name}: attribute '{attribute}': expected the same float in each "
                "call, got one that changes, which torch.compile compiles anew for each value; "
                "pass a tensor",
                RuntimeWarning,
                stacklevel=2,
            )

    mark: Any = torch.compiler.assume_constant_result
    function: Callable[[str], None] = mark(warn)
    return function


def make_refusal(reason: str) -> Callable[..., Any]:
    """A function that ends the trace, for an op that torch can't have."""

    def refuse(*args: Any, **named: Any) -> None:
        report_to_tracer("NotImplementedError", reason)

    return refuse


def _copy(function: Any) -> Any:
    return types.FunctionType(function.__code__, function.__globals__, function.__name__)


def _traced_is_int64(value: Any) -> bool:
    # Without guards: strict exports refuse one on a size, and symbols have 64 bits anyway.
    is_less, is_more = value < -(2**63), value >= 2**63
    return not (statically_known_true(is_less) or statically_known_true(is_more))


def _traced_is_known(value: Any) -> bool:
    condition = value if isinstance(value, bool) else value > 0
    # The guesses differ if the condition is unknown.
    return guard_or_true(condition) is guard_or_false(condition)


def _traced_as_constant(value: Any) -> Any:
    if type(value) in (list, tuple, torch.Size):
        return type(value)([_traced_as_constant(item) for item in value])
    return guard_scalar(value) if type(value) in NUMBERS and is_known(value) else value


def _find_places(parameters: Sequence[str], count: int, names: Sequence[str]) -> Sequence[int]:
    """The places of arguments with names, behind `count` others; () if one belongs nowhere."""
    places = [parameters.index(name) if name in parameters else -1 for name in names]
    return places if all(place >= count for place in places) else ()


def _are_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(item, torch.Tensor) for item in value
    )


def _is(kind: Any, value: Any) -> bool:
    """True if an operator takes a value as it is."""
    if kind in (dtype, Device):
        return type(value) is str and _text_of(kind, value) == value  # it may have other names
    if type(value) is not kind:
        return False
    if kind is int:
        return is_int64(value)
    return kind is not str or not any("\ud800" <= char <= "\udfff" for char in value)


def _are(kind: Any, value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_is(kind, item) for item in value)


# The conversions leave alone what is no such attribute, but for numbers that the graph computes.
def _to_float(value: Any) -> Any:
    try:
        return float(value) if type(value) is int or isinstance(value, float) else value
    except OverflowError:  # which `bind` says better
        return value


def _varies(value: Any) -> bool:
    """True if a graph that takes this number as a constant is one of many."""
    return False


def _traced_varies(value: Any) -> bool:
    # Dynamo makes a symbol of a number that has changed, or, with `dynamic=True`, of any.
    if type(value) is not float and type(value) is not int:
        return False
    return is_known(value) and _is_static_by_default()


def _is_static_by_default() -> bool:
    # Called while Dynamo traces, which cannot read this in torch 2.15.
    return bool(torch.compiler.config.assume_static_by_default)


def _traced_to_float(value: Any) -> Any:
    if type(value) is not float and type(value) is not int:
        return value
    return float(guard_scalar(value)) if is_known(value) else None


def _to_bool(value: Any) -> Any:
    return value


def _traced_to_bool(value: Any) -> Any:
    if type(value) is not bool:
        return value
    return guard_scalar(value) if is_known(value) else None


def _traced_to_dtype(value: Any) -> Any:
    # Dynamo cannot make a graphffi.dtype; the operator takes its name.
    return None if type(value) in NUMBERS or is_tensor(value) else _text_of(dtype, value)


def _traced_to_device(value: Any) -> Any:
    return None if type(value) in NUMBERS or is_tensor(value) else _text_of(Device, value)


def _text_of(kind: Any, value: Any) -> Any:
    """The name that the dtype or the device of this value has here; None if it is none."""
    try:
        return plain_text(kind(value))
    except (TypeError, ValueError):
        return None


def _to_name(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return DTYPE_NAMES.get(value)
    if isinstance(value, (str, torch.device, Device)):
        return plain_text(value)
    if type(value) in NUMBERS:  # of which Dynamo gives no module, if they are symbolic
        return value
    is_numpys = (value if isinstance(value, type) else type(value)).__module__.startswith("numpy")
    return (is_numpys and _text_of(dtype, value)) or value
