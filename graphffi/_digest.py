# SPDX-License-Identifier: Apache-2.0
"""Digests of definitions and kernels, so that no compiler's cache serves a stale one."""

from __future__ import annotations

from types import CodeType
from typing import Any


def definition_digest(texts: tuple[str, ...], kernel: str, rule: Any) -> str:
    """16 hex digits over the texts of a definition, its kernel's library and its shape rule.

    Args:
        texts: Name, signature, plan, ….
        kernel: Kernel reference; the content of a library at an absolute path counts too.
        rule: Shape rule or None.
    """
    import hashlib

    hasher = hashlib.sha256("\n".join((*texts, kernel)).encode())
    hasher.update(_library_content(kernel))
    hasher.update(_rule_text(rule).encode())
    return hasher.hexdigest()[:16]


def _library_content(reference: str) -> bytes:
    path = reference.partition("::")[0]
    if not path.startswith("/"):
        return b""
    import hashlib

    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return b""


def _rule_text(rule: Any) -> str:
    """Text that changes when what a rule computes does, and is the same in every process."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return type(rule).__qualname__
    cells = [
        cell.cell_contents for cell in rule.__closure__ or () if cell.cell_contents is not rule
    ]
    captured = [value for value in cells if isinstance(value, (int, float, str, tuple, type(None)))]
    return f"{_code_text(code)} {rule.__defaults__!r} {captured!r}"


def _code_text(code: CodeType) -> str:
    constants = [
        _code_text(c)
        if isinstance(c, CodeType)
        else sorted(map(repr, c))
        if isinstance(c, frozenset)
        else repr(c)
        for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
