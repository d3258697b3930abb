# SPDX-License-Identifier: Apache-2.0
"""Kernels of what factories return."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._values.describe import describe
from .._values.module import load_module
from .kernel import complete_kernel
from .kernel_signature import check_kernel
from .library import use_library_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._definition.interface import Interface
    from .factory import Key
    from .op_kernel import OpKernel

_functions: Final[set[str]] = set()  # by name, that factories made and no library holds


def keyed_kernel(
    definition: Interface, kernel: OpKernel, operands: Sequence[Any], attributes: Sequence[Any]
) -> OpKernel:
    """The kernel for a call: of a factory, that of the call's key, which may be still to be made.

    Raises:
        NotImplementedError: If the key depends on a size that is not known, and not to be guarded.
        TypeError: If the key is none.
    """
    if kernel.factory is None:
        return kernel
    return kernel_of_key(kernel, kernel.factory.key_of(definition, operands, attributes))


def kernel_of_key(kernel: OpKernel, key: Key) -> OpKernel:
    """The kernel that a factory has for a key: the same object for the same key."""
    assert kernel.factory is not None
    return kernel.factory.of_key(key, lambda: dataclasses.replace(kernel, key=key))


def made_kernel(definition: Interface, kernel: OpKernel) -> OpKernel:
    """The kernel that a call runs: made now, if a factory still has to.

    Raises:
        FactoryError: If the factory fails.
    """
    key, factory = kernel.key, kernel.factory
    if key is None or kernel.reference or factory is None:
        return kernel

    def complete(returned: Any) -> OpKernel:
        made = _of_returned(definition, kernel, returned)
        check_kernel(definition, made)
        use_library_of(definition.name, made.reference, renews=True)
        made.install()
        _core.resolve_kernel(made.reference)
        return made

    return factory.made(key, complete)


def _of_returned(definition: Interface, keyed: OpKernel, returned: Any) -> OpKernel:
    """The kernel of what the factory returned."""
    assert keyed.key is not None
    is_text = isinstance(returned, (str, os.PathLike))
    if not is_text and (not callable(returned) or isinstance(returned, type)):
        raise TypeError(
            "expected a function, a kernel reference or the path of a library, got "
            f"{describe(returned)}"
        )
    given = _reference(definition.name, os.fspath(returned)) if is_text else returned
    name = f"{keyed.name}.{_name(keyed.key.text)}"
    made = complete_kernel(definition, keyed, given, name)
    if made.function is not None:
        _functions.add(made.reference)
    return made


def is_made_function(reference: str) -> bool:
    """True if a reference is that of a function that a factory made, and no library holds."""
    return reference in _functions


def _name(text: str) -> str:
    """A key's text as part of a global function's name."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', text).strip('_')[:60]}.{digest}"


def _reference(op: str, text: str) -> str:
    """A kernel reference, or that of the function of a library's path."""
    if "::" in text or not text.endswith(".so"):
        return text
    path = os.path.abspath(text)
    names = load_module(path).function_names()
    own = op.partition("::")[2]
    if own not in names and len(names) != 1:
        listed = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"expected one function in '{path}', or one {own!r}, got {listed}")
    return f"{path}::{own if own in names else names[0]}"
