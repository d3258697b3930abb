# SPDX-License-Identifier: Apache-2.0
"""Transformations of JAX that calls of kernels have no rule for: errors that name the op."""

from __future__ import annotations

import sys
from typing import Any, Final

from jax.interpreters import ad


def _refusal(name: str, expected: str, instead: str) -> Any:
    def refuse(*_: Any, call: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{call.subject}: {name}: expected {expected}, got a call of a kernel; use {instead}"
        )

    return refuse


_REVERSE: Final = "jax.vjp for an op with a gradient rule"
# Tables of rules in modules that only their users import, and what to use instead.
_TABLES: Final = {
    "jax.experimental.jet": ("jet_rules", _refusal("jet", "operations with a series", _REVERSE)),
    "jax.experimental.sparse.transform": (
        "sparse_rules_bcoo",
        _refusal("sparsify", "operations on sparse arrays", "x.todense()"),
    ),
}
_filled: Final[set[str]] = set()


def refuse_transformations(primitive: Any) -> None:
    """Enters the refusals of those that this process has imported by now."""
    if len(_filled) == len(_TABLES):
        return
    for module, (table, refusal) in _TABLES.items():
        if module in sys.modules and module not in _filled:
            rules = getattr(sys.modules[module], table, None)
            if rules is not None:
                rules[primitive] = refusal
            _filled.add(module)


def refuse_transpose(primitive: Any) -> None:
    """Enters the refusal of `jax.linear_transpose`."""
    ad.primitive_transposes[primitive] = _refusal(
        "linear_transpose", "a function that JAX knows to be linear", _REVERSE
    )
