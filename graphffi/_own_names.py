# SPDX-License-Identifier: Apache-2.0
"""Names of Python callables that graphs call without an op."""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import FunctionType, MethodType
from typing import Any, Final

from . import _core
from ._registry import remove_global_func

# Programs that are compiled keep their functions; closures that are made for each call would stay
# forever otherwise.
_MAX_NAMES: Final = 1024

_lock: Final = threading.Lock()
_names: Final[OrderedDict[Any, tuple[Any, str]]] = OrderedDict()  # with what keys have the ids of


def own_name(prefix: str, kernel: Any) -> str:
    """The global function's name of a callable, which is registered under it.

    It is the same in another process that makes the same calls; other code never has it.
    """
    key = (prefix, _identity(kernel))
    with _lock:
        named = _names.get(key)
        if named is not None:
            _names.move_to_end(key)
            return named[1]
    name = _text(prefix, kernel)
    with _lock:
        number = sum(other.startswith(name) for _, other in _names.values())
        name = f"{name}.{number}" if number else name
        _names[key] = kernel, name
        _core.register_global_func(name, _core.as_function(kernel), override=True)
        if len(_names) > _MAX_NAMES:
            _, (_, oldest) = _names.popitem(last=False)
            remove_global_func(oldest)
    return name


def _identity(kernel: Any) -> Any:
    """Equal for callables that always do the same: those that are made for each call, too."""
    if isinstance(kernel, MethodType):
        return kernel
    if isinstance(kernel, FunctionType):
        cells = (*(kernel.__closure__ or ()), *(kernel.__defaults__ or ()))
        named = tuple((kernel.__kwdefaults__ or {}).items())
        refers = (kernel.__globals__, *cells, *(value for _, value in named))
        return (kernel.__code__, *map(id, refers))
    return id(kernel)


def _text(prefix: str, kernel: Any) -> str:
    import hashlib

    from ._rule_text import rule_text

    home = getattr(kernel, "__module__", None) or type(kernel).__module__
    name = getattr(kernel, "__qualname__", type(kernel).__qualname__)
    digest = hashlib.sha256(rule_text(kernel).encode()).hexdigest()[:16]
    return f"{prefix}.{home}.{name}.{digest}"
