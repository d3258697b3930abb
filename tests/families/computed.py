# SPDX-License-Identifier: Apache-2.0
"""Ops whose plans pass random arithmetic on sizes, and what Python gives for it."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import graphffi

# What it writes of ints of 64 bits fits into 32, which JAX has.
_KERNEL = """
namespace ffi = tvm::ffi;
void record(ffi::TensorView x, ffi::Array<int64_t> values, int64_t last, ffi::TensorView out) {
  constexpr int64_t kPrime = 1000003;
  int32_t* to = static_cast<int32_t*>(out.data_ptr());
  for (int64_t value : values) *to++ = static_cast<int32_t>((value % kPrime + kPrime) % kPrime);
  *to = static_cast<int32_t>((last % kPrime + kPrime) % kPrime);
}
"""
_LEAVES = (
    *("x.numel", "x.shape[0]", "x.shape[-1]", "x.ndim", "y.numel", "y.shape[-1]", "y.ndim"),
    *("r", "c", "d", "n", "b", "0", "1", "5", "128"),
)
_DIVISORS = ("1", "3", "7", "128", "-2", "-5")


@functools.cache
def kernel() -> str:
    """The reference of a kernel that writes the ints it gets."""
    return f"{graphffi.cpp.build('computed', cpp_sources=_KERNEL, functions=['record'])}::record"


def expression(rng: random.Random, depth: int = 3) -> str:
    """A random expression, which divides by nothing that is 0."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(_LEAVES)
    left, right = (expression(rng, depth - 1) for _ in range(2))
    kind = rng.choice(("+", "-", "*", "//", "//", "%", "min", "max", "neg", "ceil"))
    if kind in ("//", "%"):
        divisors = (*_DIVISORS, f"max({right}, 1)", f"min({right}, -1)")
        return f"({left}) {kind} ({rng.choice(divisors)})"
    if kind in ("min", "max"):
        return f"{kind}({left}, {right}, {rng.choice(_LEAVES)})"
    if kind == "neg":
        return f"-({left})"
    return f"-(-({left}) // 4)" if kind == "ceil" else f"({left}) {kind} ({right})"


def define(name: str, seed: int, count: int = 24) -> tuple[graphffi.Op, list[str]]:
    """An op of that many results of expressions, the last of which its plan does not list."""
    rng = random.Random(seed)
    texts = [expression(rng) for _ in range(count)]
    op = graphffi.define_op(
        f"computed::{name}",
        schema="(Tensor x, Tensor y, int n=3, bool b=True) -> Tensor",
        dims="[r] [c], [_] [d] -> [k]",
        kernel=kernel(),
        plan=f"x, ({', '.join(texts[:-1])}), {texts[-1]}, out",
        infer=lambda x, y, n, b: graphffi.empty([count], "int32"),
    )
    return op, texts


def expected(texts: Sequence[str], x: Any, y: Any, n: int = 3, b: bool = True) -> Any:
    """The results by Python, for arrays of any framework."""
    names = {
        key: SimpleNamespace(shape=tuple(a.shape), ndim=len(a.shape), numel=int(np.prod(a.shape)))
        for key, a in (("x", x), ("y", y))
    }
    sizes = {"r": x.shape[0], "c": x.shape[1], "d": y.shape[-1], "n": n, "b": b}
    values = [eval(text, {"min": min, "max": max}, {**names, **sizes}) for text in texts]
    return np.array([value % 1000003 for value in values], np.int32)
