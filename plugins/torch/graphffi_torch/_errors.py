# SPDX-License-Identifier: Apache-2.0
"""Original exceptions in place of the one class that AOTInductor turns all errors into."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from graphffi_torch._C import clear_aot_error, raise_aot_error


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Re-raises what a kernel in an AOTInductor package raised, as `load_package`'s models do.

    For packages that torch's own functions loaded. Those carry text only: outside of this block a
    kernel's ``ValueError`` is a ``RuntimeError``. Eager calls and ``torch.compile`` raise the
    original by themselves.

    Raises:
        Exception: What the kernel raised in this thread, with torch's exception as its cause.

    Example:
        >>> model = torch._inductor.aoti_load_package("model.pt2")  # doctest: +SKIP
        >>> with graphffi_torch.errors():
        ...     y = model(x)  # doctest: +SKIP
    """
    clear_aot_error()
    try:
        yield
    except RuntimeError as error:
        original = original_of(error)
        if original is None:
            raise
        raise original from error


def original_of(error: RuntimeError) -> BaseException | None:
    """The exception that a kernel raised in generated code, if that made the code fail."""
    try:
        raise_aot_error()
    except BaseException as original:
        # Torch 2.10 leaves the text out. One that was caught before is not behind this error.
        text = str(error)
        said = str(original.args[0]) if original.args else ""  # a KeyError is quoted as a whole
        return original if said in text or "API call failed" in text else None
    return None
