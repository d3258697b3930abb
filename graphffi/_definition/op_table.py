# SPDX-License-Identifier: Apache-2.0
"""Changes to the table of all ops: definitions, renewed libraries, tuning, kernels made before."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from .._frameworks.framework import announce_op
from .._kernels.factory_store import prebuilt_digest
from .._kernels.library import library_hash, split_reference, use_library_of, when_renewed
from .._tuning.tuning import changing, take_tuning
from .op import Op, check_replacement, define_anew, lock, ops, replace_definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .definition import Definition


def register_op(definition: Definition, *, override: bool) -> Op:
    """The op of a definition; one that is refused changes nothing.

    Args:
        definition: Checked, with the kernel that it is defined with, if any.
        override: Whether it may replace another one of that name.

    Raises:
        ValueError: If there is another one that it may not, or cannot, replace.
    """
    name = definition.name
    with lock:
        existing = ops.get(name)
        if existing is None:
            return _add(definition, override)
        if not _is_same(existing, definition):
            if not override:
                raise ValueError(
                    f"{name}: expected the registered definition, "
                    f"{existing.definition.signature}, got {definition.signature} with another "
                    f"{', '.join(existing.defined.differences(definition))}; give it another "
                    "name, or pass override=True to replace it"
                )
            check_replacement(existing, definition)
            _use_libraries(definition, renews=True)
            _install(definition)
            define_anew(existing, definition)
        elif override:
            _install(definition)  # of the same code, but it may refer to other objects
    return existing


def definition_of(name: str) -> Definition | None:
    """The definition of the op of a name; None if there is none."""
    op = ops.get(name)
    return None if op is None else op.definition


def _is_same(op: Op, definition: Definition) -> bool:
    """True if a definition repeats that of an op, with the same function where no text tells it."""
    if op.defined.identity != definition.identity:
        return False
    kernels = zip(definition.kernels, op.definition.kernels, strict=False)
    return all(a.handle == b.handle for a, b in kernels)


def _add(definition: Definition, override: bool) -> Op:
    _use_libraries(definition, renews=override)
    op = Op(definition)
    announce_op(op)
    _install(definition)
    ops[op.name] = op
    return op


def _use_libraries(definition: Definition, *, renews: bool) -> None:
    for kernel in definition.kernels:
        use_library_of(definition.name, kernel.reference, renews=renews)


def _install(definition: Definition) -> None:
    for kernel in definition.kernels:
        kernel.install()


def _replace_kernels(library: str, is_new: bool) -> None:
    """Renews the kernels of ops whose library was built anew."""
    if not is_new:
        return
    with lock:
        for op in ops.values():
            if any(split_reference(k.reference)[0] == library for k in op.definition.kernels):
                op.defined = _renewed(op.defined, library)
                replace_definition(op, _renewed(op.definition, library))


def _renewed(definition: Definition, library: str) -> Definition:
    kernels = (
        dataclasses.replace(kernel, library_hash=library_hash(kernel.reference))
        if split_reference(kernel.reference)[0] == library
        else kernel
        for kernel in definition.kernels
    )
    return dataclasses.replace(definition, kernels=tuple(kernels))


when_renewed(_replace_kernels)


def renew_tuning(names: Iterable[str]) -> None:
    """Makes ops run the kernels that are known to be the fastest, where these are others."""
    with lock:
        for op in (ops[name] for name in names if name in ops):
            calls = changing(op.definition)
            if calls != op.definition.tuning:
                replace_definition(op, dataclasses.replace(op.definition, tuning=calls))


def renew_factories(names: Iterable[str]) -> None:
    """Makes ops use the kernels that there are for their factories now."""
    with lock:
        for op in (ops[name] for name in names if name in ops):
            kernels = [
                dataclasses.replace(kernel, prebuilt=prebuilt_digest(op.name, kernel.name))
                if kernel.factory is not None
                else kernel
                for kernel in op.definition.kernels
            ]
            former = [kernel.prebuilt for kernel in op.definition.kernels]
            if [kernel.prebuilt for kernel in kernels] == former:
                continue
            for kernel in kernels:
                if kernel.factory is not None:
                    kernel.factory.forget_made()
            replace_definition(op, dataclasses.replace(op.definition, kernels=tuple(kernels)))


def use_tuning(path: str | os.PathLike[str]) -> None:
    """Makes calls run the kernels that `tune` found to be the fastest.

    Calls that were not measured run the first kernel that fits, as before; so do calls for which
    the kernel does not fit any more, and exported programs whose sizes are symbolic. Ops for which
    that changes nothing are left alone; the others are compiled anew. ``GRAPHFFI_TUNING``, files
    with ":" between them, does it for a process.

    Args:
        path: Of the file that it wrote. What is known of the same ops from other files goes.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is of another version, or measured on other devices only.
    """
    # A number would be that of an open file, which reading closes.
    renew_tuning(take_tuning("use_tuning", os.fspath(path)))
