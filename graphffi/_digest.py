# SPDX-License-Identifier: Apache-2.0
"""Digests of definitions and kernels, so that no compiler's cache serves a stale one."""

from __future__ import annotations

from typing import Any

from ._rule_text import rule_text


def definition_digest(texts: tuple[str, ...], rules: tuple[Any, ...]) -> str:
    """16 hex digits over the texts of a definition and its rules.

    Args:
        texts: Name, signature, plan, kernel, ….
        rules: Functions or None. What they refer to by name counts too.
    """
    import hashlib

    hasher = hashlib.sha256("\n".join(texts).encode())
    for rule in rules:
        hasher.update(rule_text(rule).encode())
    return hasher.hexdigest()[:16]


def extended_digest(digest: str, texts: tuple[str, ...], rules: tuple[Any, ...]) -> str:
    """The digest of a definition to which rules were added.

    Args:
        digest: Of the definition without them.
        texts: What belongs to the rules.
        rules: As for `definition_digest`.
    """
    return definition_digest((digest, *texts), rules)
