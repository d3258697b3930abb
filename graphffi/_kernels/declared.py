# SPDX-License-Identifier: Apache-2.0
"""Facts that graphs need of functions which are called without an op."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from .._contract.traits import NO_TRAITS, CallTraits, SideEffect, checked_traits
from .._frameworks.tracing import report_to_tracer, traced_as_constant
from .._values.describe import describe
from .._values.metadata import describe_function, describe_type, parameters_of, view_of
from .kernel import kernel_reference
from .kernel_signature import type_schema
from .library import split_reference
from .op_kernel import UNNAMED
from .own_names import keep_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_TENSORS: Final = ("int", "float", "bool", "ffi.String", "DataType", "Device")
_lock: Final = threading.Lock()
# By reference.
_declared: Final[dict[str, tuple[tuple[int, ...] | None, CallTraits]]] = {}
# Graphs are guarded by the ids of functions, which nothing else may get.
_traced: Final[dict[int, Any]] = {}


def declare(
    function: Any,
    *,
    writes: Sequence[int] | None = None,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> None:
    """Says of a function what graphs should know that call it directly, without an op.

    Declare a function before code that calls it is compiled.

    Args:
        function: A function, of graphffi or of apache-tvm-ffi, or a kernel reference.
        writes: Positions of the arguments that it writes: tensors, or lists of them. By default,
            what the metadata of its library says, else all tensors.
        allow_cuda_graph: As for `op`.
        has_side_effect: As for `op`.

    Raises:
        TypeError: If it is no function, or an argument is of another type.
        ValueError: If it was declared otherwise before.

    Example:
        >>> graphffi.declare(module.add, writes=(2,))  # doctest: +SKIP
    """
    subject = "graphffi.declare"
    reference = kernel_reference(UNNAMED, function)
    traits = checked_traits(subject, False, allow_cuda_graph, has_side_effect)
    stated = None if writes is None else _checked_writes(writes)
    keep_name(reference)
    with _lock:
        known = _declared.setdefault(reference, (stated, traits))
    if known != (stated, traits):
        raise ValueError(
            f"{subject}: {reference}: expected what was declared before, writes={known[0]}, "
            f"{known[1]}, got writes={stated}, {traits}"
        )


def _checked_writes(writes: Any) -> tuple[int, ...]:
    are_positions = isinstance(writes, (list, tuple, range)) and all(
        type(i) is int and i >= 0 for i in writes
    )
    if not are_positions:
        raise TypeError(
            "graphffi.declare: writes: expected positions of arguments, a tuple of ints, got "
            f"{describe(writes)}"
        )
    return tuple(sorted(writes))


@traced_as_constant
def facts_of(function: Any) -> tuple[str, str, tuple[int, ...] | None, bool, SideEffect]:
    """The facts about a function that is called directly.

    Returns:
        Its reference and name; the positions that it writes, or None for all; `allow_cuda_graph`
        and `has_side_effect`. No CallTraits: tracers know no instances as constants.

    Raises:
        TypeError: If its metadata says that it returns something.
    """
    reference = kernel_reference(UNNAMED, function)
    _traced[id(function)] = function
    symbol = split_reference(reference)[1]
    name = getattr(function, "name", None) or symbol.rpartition(".")[2]
    writes, traits = _declared.get(reference, (None, NO_TRAITS))
    schema = type_schema(reference)
    if schema is not None:
        _check_returns_none(name, schema)
        writes = _stated_writes(schema) if writes is None else writes
    return reference, name, writes, traits.allow_cuda_graph, traits.has_side_effect


def _check_returns_none(name: str, schema: Any) -> None:
    returned = schema.get("named_args", {}).get("return") or schema.get("args", ())[:1]
    kind = returned[0].get("type") if returned else "None"
    if kind not in ("None", "Any"):
        message = (
            f"{name}: expected a function that returns None, in code that becomes a graph, got "
            f"{describe_function(name, schema)}; define an op"
        )
        report_to_tracer("TypeError", message)
        raise TypeError(message)


def _stated_writes(schema: Any) -> tuple[int, ...] | None:
    """The positions that may be written by what parameters say; None if there are none to say it.

    What is no tensor is not written; a tensor of which its parameter says nothing is.
    """
    written = []
    parameters = parameters_of(schema) or ()
    for i, parameter in enumerate(parameters):
        view = view_of(parameter)
        is_tensor = describe_type(parameter).removesuffix(" | None") not in _NO_TENSORS
        if is_tensor if view is None else view["writes"]:
            written.append(i)
    return tuple(written) if parameters else None
