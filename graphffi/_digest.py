# SPDX-License-Identifier: Apache-2.0
"""Digests of definitions and kernels, so that no compiler's cache serves a stale one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._op_kernel import kernel_parts
from ._rule_text import digesting, known_rule_text, rule_text

if TYPE_CHECKING:
    from ._definition import Definition


def digest_of(texts: tuple[str, ...], rules: tuple[Any, ...]) -> str:
    """16 hex digits over texts and rules.

    Args:
        texts: Name, signature, plan, kernel, ….
        rules: Functions or None. What they refer to by name counts too.
    """
    import hashlib

    hasher = hashlib.sha256("\n".join(texts).encode())
    for rule in rules:
        hasher.update(rule_text(rule).encode())
    return hasher.hexdigest()[:16]


def base_digest(definition: Definition) -> str:
    """Changes when signature, shape rule or anything of the kernels does."""
    texts = [
        definition.name,
        definition.signature,
        repr(definition.has_side_effect),
        definition.dims_text,
        definition.dtypes_text,
        repr(definition.strided),
        definition.forced,
        definition.fallback,
        definition.gradient,
        repr(definition.tuning),
    ]
    if not definition.recompute:
        texts.append("recompute=False")
    rules = [definition.rule]
    for kernel in definition.kernels:
        texts += kernel.texts.values()
        rules += kernel.rules.values()
    with digesting(definition.name):
        return digest_of(tuple(texts), tuple(rules))


def full_digest(definition: Definition) -> str:
    """Changes when anything of the definition does, its rules included."""
    method = definition.vmap
    added = (definition.vjp, definition.jvp, definition.reference)
    if method is None and not any(added):
        return definition.base_digest
    texts = [method if isinstance(method, str) else ""]
    for rule in (definition.vjp, definition.jvp):
        texts += rule.save if rule else ()
    return digest_of((definition.base_digest, *texts), (method, *definition.added_rules))


def traced_digest(definition: Definition) -> str:
    """The digest for a call in a graph that is traced now.

    It covers the values that rules refer to, and what factories' libraries include, as they are
    now. Where no text tells them, it is another one each time, so that no compile cache serves the
    graph later.
    """
    rules: list[Any] = [definition.rule, definition.vmap, *definition.added_rules]
    for kernel in definition.kernels:
        rules += (kernel.workspace, kernel.when, kernel.factory and kernel.factory.key)
    texts = [known_rule_text(rule) for rule in rules if callable(rule)]
    texts += [
        kernel.factory.traced_text(is_prebuilt=bool(kernel.prebuilt))
        for kernel in definition.kernels
        if kernel.factory is not None
    ]
    if None in texts:
        return os.urandom(8).hex()
    return digest_of((definition.digest, *(text or "" for text in texts)), ())


def differences(mine: Definition, its: Definition) -> list[str]:
    """Names of the parts in which two definitions differ; "kernel" if nothing else does."""
    parts: dict[str, tuple[Any, Any]] = {
        "signature": (mine.signature, its.signature),
        **kernel_parts(mine.kernels, its.kernels),
        "shape rule": (rule_text(mine.rule), rule_text(its.rule)),
        "dims": (mine.dims_text, its.dims_text),
        "dtypes": (mine.dtypes_text, its.dtypes_text),
        "strided": (mine.strided, its.strided),
        "fallback": (mine.fallback, its.fallback),
        "gradient": (mine.gradient, its.gradient),
        "recompute": (mine.recompute, its.recompute),
        "vmap": (rule_text(mine.vmap), rule_text(its.vmap)),
    }
    return [name for name, (one, other) in parts.items() if one != other] or ["kernel"]
