# SPDX-License-Identifier: Apache-2.0
"""Original exceptions in place of the one class that XLA turns all errors into."""

from __future__ import annotations

import contextlib
from typing import Any

import jax

import graphffi


def errors() -> contextlib.ContextDecorator:
    """Re-raises what a kernel raised, with its own type, message and traceback.

    XLA carries text only: outside of this block a kernel's ``ValueError`` is a
    ``jax.errors.JaxRuntimeError`` whose text says ``ValueError: …``. XLA may run programs
    asynchronously: wait for the results inside of the block (``jax.block_until_ready``). The last
    64 errors of the process are kept. An exception is raised once: if XLA reports it again, for
    another result, a class that is not Python's becomes a RuntimeError that names it.

    Raises:
        Exception: What the kernel raised, with XLA's exception as its cause.

    Example:
        >>> with errors():
        ...     y = jax.block_until_ready(step(x))  # doctest: +SKIP
    """
    return _Errors()


class _Errors(contextlib.ContextDecorator):
    """Not a generator, which could not raise StopIteration."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        # Jaxlib (0.10) may raise a ValueError, if a jitted function has run before.
        if isinstance(error, (jax.errors.JaxRuntimeError, ValueError)):
            original = _original(error)
            if original is not None:
                try:
                    raise original from error
                finally:
                    del original  # its traceback holds this frame


def _original(error: Exception) -> BaseException | None:
    try:
        graphffi.get_global_func("graphffi_jax.raise_error")(str(error))
    except BaseException as original:
        return original
    return None


def kept(error: ValueError) -> ValueError:
    """The exception, kept for where XLA turns it into text."""
    graphffi.get_global_func("graphffi_jax.keep_error")(type(error).__name__, str(error))
    return error
