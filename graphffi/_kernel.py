# SPDX-License-Identifier: Apache-2.0
"""The strings by which graphs name kernels, and the kernels that they are of ops."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._describe import describe
from ._library import library_hash, split_reference
from ._op_kernel import OWN_NAMES
from ._own_names import own_name
from ._tracing import report_to_tracer, traced_as_constant

if TYPE_CHECKING:
    from ._definition import Definition
    from ._op_kernel import OpKernel


@dataclass(frozen=True)
class Kernel:
    """A kernel, as what defines an op names it.

    Args:
        reference: The string by which graphs name it.
        function: What the reference is to mean, of a kernel that no string names yet.
        code: The Python callable, if it is one: digests cover its code.
        release_gil: Whether calls from Python code release the GIL while it runs.
    """

    reference: str
    function: _core.Function | None = None
    code: Any = None
    release_gil: bool = True

    @staticmethod
    def of(subject: str, kernel: Any, name: str) -> Kernel:
        """What `op(kernel=...)` was given.

        Args:
            subject: The op's name.
            kernel: A function, a callable or a reference.
            name: By which the op tells it from others, if no string names it yet.

        Raises:
            TypeError: If it is none of these.
        """
        if isinstance(kernel, str):
            return Kernel(kernel, release_gil=_core.releases_gil)
        function = _function(subject, kernel)
        release_gil = getattr(kernel, "release_gil", _core.releases_gil)
        if function.reference is not None:
            return Kernel(function.reference, release_gil=release_gil)
        code = None if hasattr(kernel, "__chandle__") else kernel
        return Kernel(_shared_name(subject, name), function, code, release_gil)

    @property
    def handle(self) -> int:
        """Of the function that the reference is to mean, where no code tells it from others."""
        is_opaque = self.function is not None and self.code is None
        return self.function.__chandle__() if is_opaque and self.function is not None else 0

    def install(self) -> None:
        """Has the reference mean the function."""
        if self.function is not None:
            _core.register_global_func(self.reference, self.function, override=True)


def named_kernel(options: OpKernel, given: Any) -> OpKernel:
    """A kernel with the name that it has among those of an op, where nobody gave it one.

    Args:
        options: The kernel, but for what `given` tells.
        given: A function, a callable, a reference, or what makes kernels.
    """
    if options.name:
        return options
    reference = given if isinstance(given, str) else getattr(given, "reference", None)
    if reference is None:
        base = str(getattr(given, "__name__", type(given).__name__))
    else:
        base = split_reference(reference)[1].rpartition(".")[2]
    name = f"{options.device}.{base}" if options.device else base
    return dataclasses.replace(options, name=name)


def complete_kernel(
    definition: Definition, options: OpKernel, given: Any, name: str
) -> tuple[OpKernel, Kernel]:
    """A kernel of an op with what it runs, and what its reference is to mean.

    Args:
        definition: Of the op.
        options: The kernel, but for what `given` tells.
        given: A function, a callable or a reference.
        name: That tells it from the op's other kernels; "" for the one that the op is defined with.

    Raises:
        TypeError: If `given` is none of these.
    """
    kernel = Kernel.of(definition.name, given, f"{name}{name and '.'}{_form(definition, options)}")
    completed = dataclasses.replace(
        options,
        reference=kernel.reference,
        release_gil=kernel.release_gil,
        code=kernel.code,
        library_hash=library_hash(kernel.reference),
    )
    return completed, kernel


def _form(definition: Definition, options: OpKernel) -> str:
    """Changes with what calls pass: one that began before the op was replaced passes the former."""
    from hashlib import sha256

    size = "a rule" if callable(options.workspace) else options.workspace
    texts = (definition.signature, options.plan, definition.strided, size)
    return sha256(repr(texts).encode()).hexdigest()[:8]


@traced_as_constant
def kernel_reference(subject: str, kernel: Any) -> str:
    """The string by which graphs name the kernel of a call without op.

    A function that no string names (a Python callable, a closure) is registered as a global one,
    under a name of its own.

    Args:
        subject: For error messages, and the name.
        kernel: A function, a callable, or a reference, which is given back as it is.

    Raises:
        TypeError: If it is none of these.
    """
    if isinstance(kernel, str):
        return kernel
    function = _function(subject, kernel)
    if function.reference is not None:
        return function.reference
    return own_name(_shared_name(subject), kernel)


def _function(subject: str, kernel: Any) -> _core.Function:
    if not callable(kernel):
        message = (
            f"{subject}: kernel: expected a graphffi.Function, a callable or a kernel reference, "
            f"got {describe(kernel)}"
        )
        report_to_tracer("TypeError", message)
        raise TypeError(message)
    return _core.Function(kernel)


def _shared_name(subject: str, name: str = "") -> str:
    return f"{OWN_NAMES}{subject.replace('::', '.')}{name and '.'}{name}"
