# SPDX-License-Identifier: Apache-2.0
"""Ops with gradient and batching rules, right and wrong, for the checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import graphffi
from graphffi import Tensor

_path = graphffi.cpp.build(
    "fault_ops", [Path(__file__).resolve().parent / "faults.cc"], extra_cflags=["-O1"]
)
_kernels = graphffi.load_module(_path)


def _scale(name: str, **options: Any) -> graphffi.Op:
    @graphffi.op(
        f"faults_py::{name}", kernel=_kernels.good_scale, dtypes="float32 -> float32", **options
    )
    def scale(x: Tensor, factor: float = 2.0) -> Tensor:
        return graphffi.like(x)

    return scale


right_gradient = _scale("right_gradient", dims="n -> n", vmap="broadcast")
right_gradient.register_vjp(lambda saved, grad: right_gradient(grad, saved.factor))

wrong_gradient = _scale("wrong_gradient", dims="n -> n")
wrong_gradient.register_vjp(lambda saved, grad: grad)

negative_gradient = _scale("negative_gradient", dims="n -> n")
negative_gradient.register_vjp(lambda saved, grad: negative_gradient(grad, -saved.factor))

ignored_gradient = _scale("ignored_gradient", dims="n -> n")
ignored_gradient.register_vjp(lambda saved, grad: None)

failing_gradient = _scale("failing_gradient", dims="n -> n")
failing_gradient.register_vjp(lambda saved, grad: grad[:1])


@graphffi.op(
    "faults_py::mul_gradient", kernel=_kernels.good_add, dims="a b, a b -> a b",
    dtypes="float32, float32 -> float32",
)  # fmt: skip
def swapped_gradient(x: Tensor, y: Tensor) -> Tensor:
    """x + y, with a rule that forgets y."""
    return graphffi.like(x)


swapped_gradient.register_vjp(lambda saved, grad: (grad, None))

right_reference = _scale("right_reference", dims="n -> n")
right_reference.set_reference(lambda xp, x, factor: x * factor)

wrong_reference = _scale("wrong_reference", dims="n -> n")
wrong_reference.set_reference(lambda xp, x, factor: x * abs(factor))
