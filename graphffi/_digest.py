# SPDX-License-Identifier: Apache-2.0
"""Digests of definitions and kernels, so that no compiler's cache serves a stale one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._op_kernel import kernel_parts
from ._rule_text import read_rule

if TYPE_CHECKING:
    from ._definition import Definition


def digest_of(texts: tuple[str, ...]) -> str:
    """16 hex digits over texts."""
    import hashlib

    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def parts_of(definition: Definition) -> tuple[Any, ...]:
    """All that tells a definition from another one: texts, and functions or None."""
    method = definition.vmap
    saved = [rule.save if rule else () for rule in (definition.vjp, definition.jvp)]
    kernels = [(*kernel.texts.values(), *kernel.rules.values()) for kernel in definition.kernels]
    return (
        definition.name,
        definition.signature,
        repr(definition.has_side_effect),
        definition.dims_text,
        definition.dtypes_text,
        definition.strided,
        definition.forced,
        definition.fallback,
        definition.gradient,
        repr(definition.tuning),
        repr(definition.recompute),
        definition.rule,
        *kernels,
        method,
        *saved,
        *definition.added_rules,
    )


def traced_digest(definition: Definition) -> str:
    """The digest for a call in a graph that is traced now.

    It covers the values that rules refer to, and what factories' libraries include, as they are
    now. Where no text tells them, it is another one each time, so that no compile cache serves the
    graph later.
    """
    rules: list[Any] = [definition.rule, definition.vmap, *definition.added_rules]
    for kernel in definition.kernels:
        rules += (kernel.workspace, kernel.when, kernel.factory and kernel.factory.key)
    read = read_rule(tuple(rules), definition.name)
    texts = [
        kernel.factory.traced_text(is_prebuilt=bool(kernel.prebuilt))
        for kernel in definition.kernels
        if kernel.factory is not None
    ]
    if read.unknown or None in texts:
        return os.urandom(8).hex()
    return digest_of((definition.digest, read.text, *(text or "" for text in texts)))


def differences(mine: Definition, its: Definition) -> list[str]:
    """Names of the parts in which two definitions differ; "kernel" if nothing else does."""
    parts: dict[str, tuple[Any, Any]] = {
        "signature": (mine.signature, its.signature),
        **kernel_parts(mine.kernels, its.kernels),
        "shape rule": (read_rule(mine.rule), read_rule(its.rule)),
        "dims": (mine.dims_text, its.dims_text),
        "dtypes": (mine.dtypes_text, its.dtypes_text),
        "strided": (mine.strided, its.strided),
        "fallback": (mine.fallback, its.fallback),
        "gradient": (mine.gradient, its.gradient),
        "recompute": (mine.recompute, its.recompute),
        "vmap": (read_rule(mine.vmap), read_rule(its.vmap)),
    }
    return [name for name, (one, other) in parts.items() if one != other] or ["kernel"]
