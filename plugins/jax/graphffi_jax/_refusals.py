# SPDX-License-Identifier: Apache-2.0
"""Errors that name the op: transformations that calls of kernels have no rule for, lost arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import jax
from jax.interpreters import ad

from graphffi.plugin import describe, flat


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
        "linear_transpose",
        "a function that JAX knows to be linear",
        f"{_REVERSE}; a rule of jax.custom_jvp may compute tangents with operations of JAX only",
    )


def refuse_deleted(call: Any, arrays: Sequence[Any]) -> None:
    """Names an array that has no memory any more, which XLA does not."""
    made_of = call.made_of
    named: list[tuple[str, Any]] = [("argument", arrays)]
    if made_of is not None:
        names = (f"operand {operand.name!r}" for operand in made_of.definition.operands)
        named = list(zip(names, made_of.operands(arrays), strict=True))
    for name, value in named:
        for array in flat(value):
            if isinstance(array, jax.Array) and array.is_deleted():  # JAX passes numbers, too
                raise RuntimeError(
                    f"{call.subject}: {name}: expected an array, got {describe(jax.typeof(array))} "
                    "that was deleted or donated; use what the call that took it returned"
                )
