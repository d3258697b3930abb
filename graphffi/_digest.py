# SPDX-License-Identifier: Apache-2.0
"""Digests of definitions and kernels, so that no compiler's cache serves a stale one."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def extended_digest(digest: str, texts: tuple[str, ...], rules: tuple[Any, ...]) -> str:
    """The digest of a definition to which rules were added that call other code.

    Args:
        digest: Of the definition without them.
        texts: What belongs to the rules.
        rules: Functions. Functions and ops that they name count too, as far as they are defined.
    """
    import hashlib

    hasher = hashlib.sha256("\n".join((digest, *texts)).encode())
    for rule in rules:
        hasher.update(_deep_text(rule, set()).encode())
    return hasher.hexdigest()[:16]


def _deep_text(value: Any, seen: set[int], package: str | None = None) -> str:
    """The text of a rule, and of the ops and functions of its package that it refers to."""
    if id(value) in seen:
        return ""
    seen.add(id(value))
    definition: Any = getattr(value, "definition", None)
    if hasattr(definition, "base_digest"):  # another op
        vjp = definition.vjp
        rest = "" if vjp is None else _deep_text(vjp.backward, seen)
        return f"{definition.base_digest} {rest}"
    code = getattr(value, "__code__", None)
    if code is None:
        return repr(value) if isinstance(value, (int, float, str)) else ""
    if package is not None and _package(value) != package:
        return f"{value.__module__}.{value.__qualname__}"
    package = _package(value)
    found = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    found.extend(value.__globals__[n] for n in _names(code) if n in value.__globals__)
    return " ".join((_rule_text(value), *(_deep_text(item, seen, package) for item in found)))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _package(function: Any) -> str:
    return str(function.__module__).partition(".")[0]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # assigned later than this
        return False
    return True


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
    cells = [cell.cell_contents for cell in rule.__closure__ or () if _is_filled(cell)]
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
