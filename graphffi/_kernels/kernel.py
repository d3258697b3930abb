# SPDX-License-Identifier: Apache-2.0
"""References: the strings by which graphs name kernels, and the ops' kernels that they name."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._contract.rule_text import RuleText, read_rule
from .._frameworks.tracing import report_to_tracer, traced_as_constant
from .._values.describe import describe
from .._values.registry import remove_global_func
from .foreign import library_reference
from .kernel_signature import stated_views
from .library import check_library_name, library_hash, split_reference
from .op_kernel import OWN_NAMES
from .own_names import own_name

if TYPE_CHECKING:
    from .._definition.interface import Interface
    from .op_kernel import OpKernel


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


def complete_kernel(definition: Interface, options: OpKernel, given: Any, name: str) -> OpKernel:
    """A kernel of an op with what it runs.

    Args:
        definition: Of the op.
        options: The kernel, but for what `given` tells.
        given: A function, a callable or a reference.
        name: That tells it from the op's other kernels; "" for the one that the op is defined with.

    Raises:
        TypeError: If `given` is none of these, or states that it uses an operand otherwise.
        RuntimeError: If it names a library without a folder that is another file by now.
    """
    function = None if isinstance(given, str) else _function(definition.name, given)
    reference = given if function is None else function.reference
    code = None
    if reference is not None:
        function = None  # it has a name
    else:
        own = f"{name}{name and '.'}{_form(definition, options)}"
        reference = _name_of_code(definition.name, _shared_name(definition.name, own), given)
        code = None if hasattr(given, "__chandle__") else given
    check_library_name(reference)
    options = dataclasses.replace(options, reference=reference)
    return dataclasses.replace(
        options,
        stated=stated_views(definition, options),
        function=function,
        release_gil=getattr(given, "release_gil", _core.releases_gil),
        code=code,
        library_hash=library_hash(reference),
    )


# By name; of each the hash of its text, and what that does not tell.
_codes: Final[dict[str, RuleText]] = {}


def _name_of_code(op: str, shared: str, kernel: Any) -> str:
    """The name of a function that another one never gets, in this process.

    A program that runs while the op is replaced calls the function that it was made with.

    Args:
        op: The op's name.
        shared: The beginning, which all functions of the op share that are called alike.
        kernel: The function.
    """
    read = read_rule(kernel, op)
    digest = hashlib.sha256(read.text.encode()).hexdigest()[:16]
    known = RuleText(digest, read.unknown)
    for number in itertools.count():
        name = f"{shared}.{digest}.{number}" if number else f"{shared}.{digest}"
        if _codes.setdefault(name, known) == known:
            break
    return name


def forget_function(name: str) -> None:
    """Releases a function of an op that nothing calls any more by its own name."""
    if _codes.pop(name, None) is not None:
        remove_global_func(name)


def _form(definition: Interface, options: OpKernel) -> str:
    """Changes with what calls pass: one that began before the op was replaced passes the former."""
    size = "a rule" if callable(options.workspace) else options.workspace
    texts = (definition.signature, options.plan, definition.strided, size)
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:8]


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
    reference = function.reference or library_reference(function, kernel)
    if reference is not None:
        return reference
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
