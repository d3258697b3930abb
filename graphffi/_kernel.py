# SPDX-License-Identifier: Apache-2.0
"""The strings by which graphs name kernels."""

from __future__ import annotations

from typing import Any

from . import _core
from ._describe import describe
from ._own_names import own_name
from ._tracing import report_to_tracer, traced_as_constant


@traced_as_constant
def kernel_reference(subject: str, kernel: Any, is_shared: bool = True) -> str:
    """The string by which graphs name a kernel.

    A function that no string names (a Python callable, a closure) is registered as a global one.

    Args:
        subject: The op's name, for error messages.
        kernel: A function, a callable, or a reference, which is given back as it is.
        is_shared: A callable takes the place of the one that was given for the same subject.
            Otherwise each has a name of its own.

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
        return own_name(name, kernel)
    _core.register_global_func(name, function, override=True)
    return name
