# SPDX-License-Identifier: Apache-2.0
"""Global functions, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from .. import _core
from .describe import describe, near_names

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> _core.Function: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> _core.Function | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> _core.Function | None:
    """Look a global function up.

    Args:
        name: what it was registered as.
        allow_missing: whether an unknown name gives None.

    Returns:
        The function.

    Raises:
        KeyError: if there is none; names that look alike are listed.
        TypeError: if the name is no text.
    """
    function = _core.get_global_func(_checked_name("get_global_func", name))
    if function is None and not allow_missing:
        near = near_names(name, list_global_func_names())
        raise KeyError(f"graphffi: expected a global function, got the unknown name {name!r}{near}")
    return function


@overload
def register_global_func(
    name: str, func: None = None, *, override: bool = False
) -> Callable[[_F], _F]: ...
@overload
def register_global_func(name: str, func: _F, *, override: bool = False) -> _F: ...
def register_global_func(
    name: str, func: _F | None = None, *, override: bool = False
) -> _F | Callable[[_F], _F]:
    """Make a function callable by name, from C++ as well.

    Args:
        name: its name in the process.
        func: a Python callable or a function; left out, this decorates one. Tensors
            arrive as ``graphffi.Tensor``. What it raises arrives at a Python caller
            as it is, through C++ frames too.
        override: whether to replace a function of that name, in compiled programs too.

    Returns:
        ``func``, or the decorator.

    Raises:
        RuntimeError: if the name is taken.
        TypeError: if ``func`` can't be called, or the name is none.
    """
    _checked_name("register_global_func", name)  # `@register_global_func` without one, too

    def register(function: _F) -> _F:
        _core.register_global_func(name, _core.Function(function), override)
        return function

    return register if func is None else register(func)


def remove_global_func(name: str) -> None:
    """Take a global function out of the table; those who hold it can go on calling it.

    Ops and compiled programs that name it call what has the name next.

    Args:
        name: what it was registered as.

    Raises:
        KeyError: if there is none.
    """
    get_global_func(name)
    _core.remove_global_func(name)


def _checked_name(function: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"graphffi: {function}: name: expected a str, got {describe(name)}")
    return name


def list_global_func_names() -> list[str]:
    """Return the names of all global functions."""
    names = get_global_func("ffi.FunctionListGlobalNamesFunctor")()
    return [names(index) for index in range(names(-1))]
