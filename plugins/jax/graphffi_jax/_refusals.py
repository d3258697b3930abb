# SPDX-License-Identifier: Apache-2.0
"""Errors that name the op: transformations that calls of kernels have no rule for, lost arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.interpreters import ad

import graphffi
from graphffi.plugin import describe, flat


def refuse_transpose(primitive: Any) -> None:
    """Enters the refusal of `jax.linear_transpose`."""

    def refuse(*_: Any, call: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{call.subject}: linear_transpose: expected a function that JAX knows to be linear, "
            "got a call of a kernel; use jax.vjp for an op with a gradient rule; a rule of "
            "jax.custom_jvp may compute tangents with operations of JAX only"
        )

    ad.primitive_transposes[primitive] = refuse


@functools.cache
def _asks_for_cpu_programs() -> Any:
    return graphffi.get_global_func("graphffi_jax.is_in_cpu_program")


@functools.cache
def _computes_on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def refuse_in_kernels(subject: str) -> None:
    """Refuses a call that a kernel of a program on the CPU makes with arrays of JAX.

    XLA's CPU client has as many threads for programs as there are cores, and a program takes one
    until its kernels return: a kernel that waits for another program may wait forever.
    """
    if _asks_for_cpu_programs()() and _computes_on_cpu():
        raise RuntimeError(
            f"{subject}: expected a call outside of kernels that JAX programs on the CPU run, got "
            "one with arrays of JAX within such a kernel, which may wait forever; pass NumPy arrays"
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
