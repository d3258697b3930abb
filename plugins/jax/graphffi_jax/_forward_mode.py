# SPDX-License-Identifier: Apache-2.0
"""Refuses forward mode for calls that have a rule for reverse mode only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

# JAX differentiates forward, then transposes where it was asked for reverse mode: only what runs
# the tangents, or compiles them, knows that nobody did. So they pass an identity that transposes,
# and can do nothing else.

guard_p: Final[Any] = Primitive("tvm_ffi_guard")
guard_p.multiple_results = True
tangents_p: Final[Any] = Primitive("tvm_ffi_tangents")
tangents_p.multiple_results = True


def refuse_forward_mode(subject: str, arrays: Sequence[Any]) -> list[Any]:
    """The arrays, through which no forward mode goes.

    Args:
        subject: The op's name.
        arrays: Operands, traced.

    Returns:
        The same values. Code that runs their tangents raises NotImplementedError: when it is
        traced, compiled or, eagerly, called.
    """
    return list(guard_p.bind(*arrays, subject=subject))


def _identity(*arrays: Any, subject: str) -> list[Any]:
    return list(arrays)


def _refuse(*_: Any, subject: str, **__: Any) -> Any:
    raise NotImplementedError(
        f"{subject}: jvp: expected reverse-mode differentiation, got forward mode; use "
        "jax.vjp, jax.grad or jax.jacrev"
    )


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, subject: str
) -> tuple[list[Any], list[Any]]:
    present = [t for t in tangents if type(t) is not ad.Zero]
    passed = iter(tangents_p.bind(*present, subject=subject))
    return (
        guard_p.bind(*primals, subject=subject),
        [t if type(t) is ad.Zero else next(passed) for t in tangents],
    )


def _transpose(cotangents: Sequence[Any], *_: Any, subject: str) -> list[Any]:
    return list(cotangents)


guard_p.def_impl(_identity)
guard_p.def_abstract_eval(_identity)
mlir.register_lowering(guard_p, lambda _, *arrays, subject: list(arrays))
batching.primitive_batchers[guard_p] = lambda arrays, dims, *, subject: (
    guard_p.bind(*arrays, subject=subject),
    dims,
)
ad.primitive_jvps[guard_p] = _differentiate

tangents_p.def_impl(_refuse)
tangents_p.def_abstract_eval(_identity)
mlir.register_lowering(tangents_p, _refuse)
batching.primitive_batchers[tangents_p] = _refuse
ad.primitive_jvps[tangents_p] = _refuse
ad.primitive_transposes[tangents_p] = _transpose
