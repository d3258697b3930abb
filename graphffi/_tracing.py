# SPDX-License-Identifier: Apache-2.0
"""Facts of graphffi's code for tracers of Python code, such as torch.compile's."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")
_reporters: Final[list[Callable[[Exception], None]]] = []


def traced_as_constant(function: _F) -> _F:
    """Has tracers call a function, with constants, where they would follow its code.

    `torch.compiler.assume_constant_result` does the same, and imports torch's compiler for it.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_int64(value: Any) -> bool:
    """Whether an int has 64 bits at most; symbolic ones have. Tracers have an answer of their own.

    Python's comparison would make the code that they trace depend on the value.
    """
    return type(value).__name__ == "SymInt" or -(2**63) <= value < 2**63


def is_known(value: Any) -> bool:
    """Whether a float or bool has a value when a graph is traced: not if a tensor's element is it.

    Tracers of Python code have an answer of their own.
    """
    return type(value).__name__ not in ("SymFloat", "SymBool") or value.node.has_hint()


def register_tracer(reporter: Callable[[Exception], None]) -> None:
    """Adds one framework's way to end a trace.

    Args:
        reporter: Raises what ends the trace with the error; returns where no trace is under way.
    """
    _reporters.append(reporter)


@traced_as_constant
def report_to_tracer(kind: str, message: str) -> None:
    """Ends the trace that is under way, so that its caller gets the error as eager code does.

    Tracers wrap the exceptions of the code that they follow in their own. Does nothing elsewhere.

    Args:
        kind: The name of a built-in exception: tracers know no exceptions as constants. Others end
            no trace.
        message: What it says.
    """
    type_of_error: Any = getattr(builtins, kind, None)
    for reporter in _reporters if type_of_error is not None else ():
        reporter(type_of_error(message))
