# SPDX-License-Identifier: Apache-2.0
"""Errors of kernels as Python exceptions, and of the factories that make them."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from .. import _core

_E = TypeVar("_E", bound=type[BaseException])
# The C++ code that called the kernel.
_CALLERS: Final = ("in graphffi::", "in graphffi_torch::", "in graphffi_jax::")
_SHOWS_CALLERS: Final = _core.ask_flag("GRAPHFFI_BACKTRACE", False)


class Error(RuntimeError):
    """An error whose kind is no Python exception.

    Attributes:
        kind: what the kernel calls it. ``InternalError``: something broke that no caller can put
            right, a bug in a kernel or in graphffi.
    """

    kind: str = "Error"


class FactoryError(RuntimeError):
    """A factory of an op failed: names op, factory and key. The next call tries again."""


FactoryError.__module__ = "graphffi.plugin"


def name_rule(error: Exception, op: str, kind: str) -> None:
    """Puts the op and the rule that raised an exception of Python in front of its text.

    Args:
        error: Is left alone if its class is somebody's own, if it has more than a text, as OSError,
            or if that names the op already.
        op: The name of the op.
        kind: What errors call the rule.
    """
    text = str(error.args[0]) if error.args else ""
    is_python_s = type(error).__module__ == "builtins" and len(error.args) <= 1
    if is_python_s and not text.startswith(op):
        error.args = (f"{op}: {kind}: {text.removeprefix('graphffi: ')}",)


_registered: dict[str, type[BaseException]] = {
    "Error": Error,
    "ffi.Error": Error,
}


@overload
def register_error(error: _E, /) -> _E: ...
@overload
def register_error(error: str, /) -> Callable[[_E], _E]: ...
def register_error(error: str | _E, /) -> _E | Callable[[_E], _E]:
    """Have errors of one kind raised as an exception class of yours.

    Args:
        error: the class, whose name is the kind, or the kind; then it decorates the class.

    Returns:
        The class, or the decorator.

    Raises:
        TypeError: if it is no exception class.

    Example:
        >>> @register_error
        ... class ShapeMismatch(ValueError): ...
    """
    if isinstance(error, str):
        kind = error

        def decorate(cls: _E) -> _E:
            return _register(kind, cls)

        return decorate
    return _register(getattr(error, "__name__", ""), error)


def _register(kind: str, cls: _E) -> _E:
    if not _is_exception(cls):
        raise TypeError(f"graphffi: register_error: expected an exception class, got {cls!r}")
    _registered[kind] = cls
    return cls


def _is_exception(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


def exception_for(kind: str, message: str, backtrace: str) -> BaseException:
    """Make the exception that an error of a kernel stands for.

    Args:
        kind: name of an exception class.
        message: its text.
        backtrace: where it comes from in C++, the most recent frame first; becomes a note.

    Returns:
        The exception; an ``Error`` that names the kind if there is no such class.
    """
    exception = _make(kind, message)
    backtrace = _of_kernel(backtrace)
    if backtrace:
        note = "C++ traceback (most recent call first):\n" + backtrace
        _add_note(exception, note)
    return exception


def _of_kernel(backtrace: str) -> str:
    """Keep the frames of a kernel whose source is known; all with GRAPHFFI_BACKTRACE=1."""
    if _SHOWS_CALLERS:
        return backtrace
    lines = backtrace.splitlines()
    frames = itertools.takewhile(lambda line: not any(c in line for c in _CALLERS), lines)
    return "\n".join(frame for frame in frames if not frame.startswith('  File "<unknown>"'))


def _class_of(kind: str) -> type[BaseException] | None:
    if kind in _registered:
        return _registered[kind]
    found = getattr(builtins, kind, None)
    return found if _is_exception(found) else None


def _make(kind: str, message: str) -> BaseException:
    named = Error(f"{kind}: {message}")
    named.kind = kind
    cls = _class_of(kind)
    try:
        return named if cls is None else cls(message)
    # The class takes other arguments, or whatever goes wrong in a class of the caller's.
    except Exception as error:
        _add_note(named, f"{kind}(message) raises {type(error).__name__}: {error}")
        return named


def _add_note(exception: BaseException, note: str) -> None:
    """As `add_note` does, which Python 3.10 lacks."""
    exception.__dict__.setdefault("__notes__", []).append(note)
