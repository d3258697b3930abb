# SPDX-License-Identifier: Apache-2.0
"""The strings by which graphs name kernels."""

from __future__ import annotations

import threading
from typing import Any, Final

from . import _core
from ._describe import describe
from ._tracing import report_to_tracer, traced_as_constant

_lock: Final = threading.Lock()
_named_callables: Final[dict[int, tuple[Any, str]]] = {}  # by id, and kept, so that ids stay theirs


@traced_as_constant
def kernel_reference(subject: str, kernel: Any, is_shared: bool = True) -> str:
    """The string by which graphs name a kernel.

    A function that no string names (a Python callable, a closure) is registered as a global one.

    Args:
        subject: The op's name, for error messages.
        kernel: A function, a callable, or a reference, which is given back as it is.
        is_shared: A callable takes the place of the one that was given for the same subject.
            Otherwise each has a name of its own, for the rest of the process.

    Raises:
        TypeError: If it is none of these.
    """
    if isinstance(kernel, str):
        return kernel
    if not callable(kernel):
        message = (
            f"{subject}: kernel: expected a graphffi.Function, a callable or a kernel reference, "
            f"got {describe(kernel)}"
        )
        report_to_tracer("TypeError", message)
        raise TypeError(message)
    function = _core.as_function(kernel)
    if function.reference is not None:
        return function.reference
    name = f"graphffi.kernel.{subject.replace('::', '.')}"
    if not is_shared:
        name = _own_name(name, kernel)
    _core.register_global_func(name, function, override=True)
    return name


def _own_name(prefix: str, kernel: Any) -> str:
    """A name that is the same for the same callable, in another process too where possible."""
    named = _named_callables.get(id(kernel))
    if named is None:
        base = f"{prefix}.{getattr(kernel, '__qualname__', type(kernel).__qualname__)}"
        with _lock:
            number = sum(name.startswith(base) for _, name in _named_callables.values())
            named = (kernel, f"{base}.{number}" if number else base)
            _named_callables[id(kernel)] = named
    return named[1]
