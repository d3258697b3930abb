# SPDX-License-Identifier: Apache-2.0
"""Ops of many data types, with gradient rules that are right, or wrong in some calls only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphffi
from graphffi._values.tensor import numpy_from_dlpack


def _op(name: str, schema: str, dtypes: str, compute: Callable[..., Any]) -> graphffi.Op:
    """An elementwise op: its kernel computes with arrays, in float32 where they are narrow."""

    def kernel(*values: Any) -> None:
        arrays = [numpy_from_dlpack(v) if hasattr(v, "shape") else v for v in values]
        *arrays, out = arrays
        narrow = ("bfloat16", "float16", "float8_e4m3fn")
        wide = [
            a.astype("float32") if getattr(getattr(a, "dtype", None), "name", "") in narrow else a
            for a in arrays
        ]
        out[...] = compute(*wide)

    return graphffi.define_op(
        f"rules::{name}", schema=f"({schema}) -> Tensor", kernel=kernel, dtypes=dtypes,
        infer=lambda x, *_: graphffi.like(x),
    )  # fmt: skip


def _scale(name: str) -> graphffi.Op:
    return _op(name, "Tensor x, float s=2.0", "float32 -> float32", lambda x, s: x * s)


right_scale = _scale("right_scale")
right_scale.register_vjp(lambda saved, grad: grad * saved.s)
right_scale.register_jvp(lambda saved, x: x * saved.s)
fixed_scale = _scale("fixed_scale")
fixed_scale.register_vjp(lambda saved, grad: grad * 2.0)
fixed_scale.register_jvp(lambda saved, x: x * 2.0)


def _flip(name: str) -> graphffi.Op:
    schema = "Tensor x, Tensor? w, bool negative=False"

    def compute(x: Any, w: Any, negative: bool) -> Any:
        return x * (3 if w is None else w) * (-1 if negative else 1)

    return _op(name, schema, "T, T -> T; T: float32 | float64", compute)


def _flip_rule(*, negates: bool = True, of_absent: float = 3.0) -> Callable[..., Any]:
    def rule(saved: Any, grad: Any) -> Any:
        grad = -grad if negates and saved.negative else grad
        return (grad * of_absent, None) if saved.w is None else (grad * saved.w, grad * saved.x)

    return rule


right_flip = _flip("right_flip")
right_flip.register_vjp(_flip_rule(), save=("x", "w"))
unflipped = _flip("unflipped")
unflipped.register_vjp(_flip_rule(negates=False), save=("x", "w"))
wrong_absent = _flip("wrong_absent")
wrong_absent.register_vjp(_flip_rule(of_absent=1.0), save=("x", "w"))


def _product(name: str, dtypes: str) -> graphffi.Op:
    return _op(name, "Tensor x, Tensor w", dtypes, lambda x, w: x * w)


def _rules(op: graphffi.Op, factor: float, *, by_w: bool = True) -> None:
    op.register_vjp(
        lambda saved, grad: (grad * saved.w * factor, grad * saved.x if by_w else None),
        save=("x", "w"),
    )
    op.register_jvp(
        lambda saved, x, w: saved.w * x * factor + (saved.x * w if by_w else 0), save=("x", "w")
    )


KINDS = {
    "bfloat16": "bfloat16, bfloat16 -> bfloat16",
    "float16": "float16, float16 -> float16",
    "complex64": "complex64, complex64 -> complex64",
    "complex128": "complex128, complex128 -> complex128",
    "mixed": "float32, bfloat16 -> float32",
    "bytes": "float32, uint8 -> float32",
}
for _kind, _dtypes in KINDS.items():
    _rules(_product(f"right_{_kind}", _dtypes), 1.0, by_w=_kind != "bytes")
    _rules(_product(f"wrong_{_kind}", _dtypes), -1.0, by_w=_kind != "bytes")

# The modulus has no complex derivative: a framework's convention would show.
right_modulus = _op("right_modulus", "Tensor x", "complex64 -> complex64", lambda x: x * abs(x))
right_modulus.register_jvp(
    lambda saved, x: x * abs(saved.x) + saved.x * (saved.x.real * x.real + saved.x.imag * x.imag)
    / abs(saved.x),
    save=("x",),
)  # fmt: skip

coarse = _product("coarse", "float8_e4m3fn, float8_e4m3fn -> float8_e4m3fn")
coarse.register_vjp(lambda saved, grad: (grad, grad))


def _root(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(-abs(x) - 1)


undefined = _op("undefined", "Tensor x", "float32 -> float32", _root)
undefined.register_vjp(lambda saved, grad: grad)
