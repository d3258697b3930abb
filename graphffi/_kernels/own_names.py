# SPDX-License-Identifier: Apache-2.0
"""Names of Python callables that graphs call without an op."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final

from .. import _core
from .._contract.rule_text import read_rule
from .._values.registry import remove_global_func

# Programs that have called them keep their functions; closures that are made for each call would
# stay forever otherwise.
_MAX_NAMES: Final = 1024

_lock: Final = threading.Lock()
_names: Final[OrderedDict[Any, _Named]] = OrderedDict()  # the one that was used last is the last
# Callables of a text so far. Graphs may have the name of one that is gone: no other one gets it.
_counts: Final[Counter[str]] = Counter()
_kept: Final[set[str]] = set()


@dataclass(frozen=True)
class _Named:
    """A callable and its name; several of one text have numbers.

    Args:
        kernel: Kept, so that nothing else gets the ids in its key.
        text: Of its code.
        number: Of those with that text.
    """

    kernel: Any
    text: str
    number: int

    @property
    def name(self) -> str:
        # No point: those of ops' kernels are left out where the whole name is unknown.
        return f"{self.text}#{self.number}" if self.number else self.text


def own_name(prefix: str, kernel: Any) -> str:
    """The global function's name of a callable, which is registered under it.

    It is the same in another process that makes the same calls; other code never has it.
    """
    key = (prefix, _identity(kernel))
    with _lock:
        if key in _names:
            _names.move_to_end(key)
            return _names[key].name
    text = _text(prefix, kernel)
    with _lock:
        if key in _names:  # by another thread meanwhile
            return _names[key].name
        named = _names[key] = _Named(kernel, text, _counts[text])
        _counts[text] += 1
        _core.register_global_func(named.name, _core.Function(kernel), override=True)
        if len(_names) - len(_kept) > _MAX_NAMES:
            oldest = next(k for k, n in _names.items() if n.name not in _kept)
            remove_global_func(_names.pop(oldest).name)
    return named.name


def keep_name(name: str) -> None:
    """Keeps a callable, and its name, which something is known of. Other names may be given."""
    with _lock:
        if any(named.name == name for named in _names.values()):
            _kept.add(name)


# A child process has the thread that forks only, which would wait for another one's for ever.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


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
    home = getattr(kernel, "__module__", None) or type(kernel).__module__
    name = getattr(kernel, "__qualname__", type(kernel).__qualname__)
    digest = hashlib.sha256(read_rule(kernel).text.encode()).hexdigest()[:16]
    return f"{prefix}.{home}.{name}.{digest}"
