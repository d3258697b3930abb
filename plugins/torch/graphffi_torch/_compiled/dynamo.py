# SPDX-License-Identifier: Apache-2.0
"""Dynamo's part: the errors of wrong calls in code that it traces, and the classes it meets there.

The caller of a wrong call gets the error of eager code. Dynamo raises exceptions of its own for
what goes wrong while it traces, with the original's text among others (torch 2.10 to 2.15); it has
no public way to say that an exception is meant for the caller. An `Unsupported` breaks the graph
where that is allowed, so that eager code raises the error. With `fullgraph=True` it reaches
`torch.compile`'s wrapper, which raises what its `with_traceback` gives.

Gradient rules run later, when Dynamo has handed the graph to its backend. There it lets a
`BackendCompilerFailed` through to the same wrapper, which raises what its `remove_dynamo_frames`
gives.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def end_trace(error: Exception) -> None:
    """Raises what ends a trace with this error; returns where Dynamo does not trace."""
    # Others, such as `torch.export`, trace without Dynamo: they follow no frames.
    if _is_dynamo_there() and torch._guards.TracingContext.extract_stack():
        raise _wrong_call_type()(error)


def is_wrong_call(error: BaseException) -> bool:
    """True if this is what `end_trace` raises."""
    return _is_dynamo_there() and isinstance(error, _wrong_call_type())


def end_compilation(error: Exception) -> None:
    """Raises what ends the work of Dynamo's backend with this error; returns elsewhere.

    Torch's own errors say more about compilers than eager code would.
    """
    if not _is_dynamo_there() or type(error).__module__.startswith("torch"):
        return
    if _is_compiling() and not torch._guards.TracingContext.extract_stack():
        raise _wrong_rule_type()(error)


def trace_type(kind: type, wrap: Callable[[Any, Any], Any]) -> None:
    """Lets Dynamo, which is there, make a variable of a class's object by ``wrap(builder, x)``.

    The caller sees that torch has the private name of that table.
    """
    from torch._dynamo.variables.builder import VariableBuilder

    VariableBuilder._type_dispatch()[kind] = wrap


def _is_dynamo_there() -> bool:
    return "torch._dynamo.exc" in sys.modules and has("errors")


def _is_compiling() -> bool:
    return torch._guards.CompileContext.current_compile_id() is not None


@functools.cache
def _wrong_rule_type() -> Any:
    from torch._dynamo.exc import BackendCompilerFailed

    class WrongRule(BackendCompilerFailed):
        """Ends the backend's work; its caller gets `inner_exception`."""

        def __init__(self, error: Exception) -> None:
            super().__init__(None, error, None)

        def remove_dynamo_frames(self) -> Any:
            """The error that torch.compile raises, and before it Inductor, to Dynamo."""
            return self if _is_compiling() else self.inner_exception

    return WrongRule


@functools.cache
def _wrong_call_type() -> Any:
    from torch._dynamo.exc import Unsupported

    class WrongCall(Unsupported):
        """Ends a trace; its caller gets `error`."""

        def __init__(self, error: Exception) -> None:
            super().__init__(f"{type(error).__name__}: {error}")
            self.error = error

        def with_traceback(self, traceback: TracebackType | None) -> Any:
            """The error that torch.compile raises, without the traceback through Dynamo."""
            if traceback is not None:
                return super().with_traceback(traceback)
            if hasattr(self.error, "add_note"):  # Python 3.11
                self.error.add_note("in code that torch.compile traced:\n" + self._user_code())
            return self.error

        def _user_code(self) -> str:
            return "".join(self.real_stack.format())

    return WrongCall
