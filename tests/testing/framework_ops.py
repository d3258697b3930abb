# SPDX-License-Identifier: Apache-2.0
"""Ops with gradient and batching rules, right and wrong, for the checks."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

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


right_rules = _scale("right_rules", dims="n -> n", vmap="broadcast")
right_rules.register_vjp(lambda saved, grad: right_rules(grad, saved.factor))
right_rules.register_jvp(lambda saved, x: right_rules(x, saved.factor))

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

wrong_tangent = _scale("wrong_tangent", dims="n -> n")
wrong_tangent.register_jvp(lambda saved, x: x)

failing_tangent = _scale("failing_tangent", dims="n -> n")
failing_tangent.register_jvp(lambda saved, x: x[:1])


def _scaled_twice(size: Any, batched: Any, x: Any, factor: float) -> Any:
    return wrong_batch(wrong_batch(x, factor), factor)


def _scaled_first(size: Any, batched: Any, x: Any, factor: float) -> Any:
    return first_batch(x[0], factor)


wrong_batch = _scale("wrong_batch", vmap=_scaled_twice)
first_batch = _scale("first_batch", vmap=_scaled_first)


@graphffi.op(
    "faults_py::mixed_batch", kernel=_kernels.mixes_rows, dtypes="float32 -> float32",
    vmap="broadcast",
)  # fmt: skip
def mixed_batch(x: Tensor) -> Tensor:
    """The elements from the last one to the first one, of all rows together."""
    return graphffi.like(x)


def _add_if_given(x: Any, y: Any, out: Any) -> None:
    np.from_dlpack(out)[...] = np.from_dlpack(y) + (0 if x is None else np.from_dlpack(x))


@graphffi.op(
    "faults_py::optional_batch", kernel=_add_if_given, dtypes="float32, float32 -> float32",
    dims="a b, a b -> a b", vmap="sequential",
)  # fmt: skip
def optional_batch(x: Tensor | None, y: Tensor) -> Tensor:
    """x + y, or y."""
    return graphffi.like(y)


def _python(name: str, kernel: Any, **options: Any) -> graphffi.Op:
    @graphffi.op(
        f"faults_py::{name}", kernel=kernel, dtypes="float32 -> float32", dims="a b -> a b",
        **options,
    )  # fmt: skip
    def python(x: Tensor) -> Tensor:
        return graphffi.like(x)

    return python


_kept: list[Any] = []


def _keeps(x: Any, out: Any) -> None:
    _kept.append(x)
    np.from_dlpack(out)[:] = np.from_dlpack(x)


def _updates(x: Any, out: Any) -> None:
    np.from_dlpack(x)[:] += 1
    np.from_dlpack(out)[:] = np.from_dlpack(x)


def _shuffles(x: Any, out: Any) -> None:
    np.from_dlpack(out)[:] = np.random.permutation(np.from_dlpack(x).ravel()).reshape(x.shape)


def _grows(x: Any, out: Any) -> None:
    _kept.append(bytearray(1000))
    np.from_dlpack(out)[:] = np.from_dlpack(x)


def _is_killed(x: Any, out: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does where memory runs out


def _column_major(x: Any) -> Any:
    return graphffi.from_dlpack(np.asfortranarray(np.from_dlpack(x) * 2))


python_keeps = _python("python_keeps", _keeps)
python_updates = _python("python_updates", _updates)
python_shuffles = _python("python_shuffles", _shuffles)
python_grows = _python("python_grows", _grows)
python_is_killed = _python("python_is_killed", _is_killed)
column_major = _python("column_major", _column_major, plan="x")
_sizes = itertools.cycle((0, 0, 0, 1))


@graphffi.op("faults_py::unsteady_rule", kernel=_kernels.good_twice, dtypes="float32 -> float32")
def unsteady_rule(x: Tensor) -> Tensor:
    """Its rule says something else now and then."""
    return graphffi.like(x, shape=(x.numel + next(_sizes),))


@graphffi.op("faults_py::int_sum", kernel=_kernels.good_twice, dtypes="float32 -> int32")
def wrong_kind(x: Tensor) -> Tensor:
    """Its kernel writes float32."""
    return graphffi.empty(x.shape, "int32")


wrong_kind.set_reference(lambda xp, x: xp.astype(x * 2, xp.int32))


def _weighs(x: Any, weights: list[float], out: Any) -> None:
    np.from_dlpack(out)[:] = np.from_dlpack(x) * sum(weights)


@graphffi.op("faults_py::weighted", kernel=_weighs, dtypes="float32 -> float32")
def weighted(x: Tensor, weights: list[float]) -> Tensor:
    """A correct one, with a list."""
    return graphffi.like(x)


def _weighs_some(x: Any, weights: list[float], out: Any) -> None:
    _weighs(x, weights, out) if weights else _is_killed(x, out)


@graphffi.op("faults_py::weighted_by_some", kernel=_weighs_some, dtypes="float32 -> float32")
def weighted_by_some(x: Tensor, weights: list[float]) -> Tensor:
    """Its kernel takes for granted that there are weights."""
    return graphffi.like(x)


def _float8_copy(name: str) -> graphffi.Op:
    kernel = _kernels.good_copy_float8

    @graphffi.op(f"faults_py::{name}", kernel=kernel, dtypes="float8_e4m3fn -> float8_e4m3fn")
    def copy(x: Tensor) -> Tensor:
        return graphffi.like(x)

    return copy


float8_reference = _float8_copy("float8_reference")
float8_reference.set_reference(lambda xp, x: x * 0.3 + x * 0.7)
wrong_float8_reference = _float8_copy("wrong_float8_reference")
wrong_float8_reference.set_reference(lambda xp, x: x * 0.3 + x * 0.3)


def _numbers(out: Any) -> None:
    np.from_dlpack(out)[...] = np.arange(out.shape[0])


@graphffi.op("faults_py::numbered", kernel=_numbers, plan="out")
def numbered(n: int, dtype: graphffi.dtype = "float32", device: graphffi.Device = "cpu") -> Tensor:
    """The numbers from 0."""
    graphffi.check(dtype in ("float32", "int32"), "expected float32 or int32")
    return graphffi.empty((n,), dtype, device)


def _times_bytes(x: Any, kinds: list[graphffi.dtype], device: graphffi.Device, out: Any) -> None:
    np.from_dlpack(out)[...] = np.from_dlpack(x) * sum(kind.itemsize for kind in kinds)


@graphffi.op("faults_py::of_kinds", kernel=_times_bytes, dtypes="float32 -> float32")
def of_kinds(x: Tensor, kinds: list[graphffi.dtype], device: graphffi.Device) -> Tensor:
    """Its rule asks data types and devices for what texts lack."""
    graphffi.check(all(kind.itemsize < 8 for kind in kinds), "expected narrow data types")
    graphffi.check(device.type == "cpu", "expected the host")
    return graphffi.like(x)


def _sums_segments(x: Any, offsets: Any, out: Any) -> None:
    steps = np.from_dlpack(offsets)
    if (np.diff(steps) < 0).any():
        raise ValueError(f"operand 'offsets': expected ascending ones, got {steps.tolist()}")
    np.from_dlpack(out)[...] = np.from_dlpack(x) * steps.sum()


segment_sums = graphffi.define_op(
    "faults_py::segment_sums", schema="(Tensor x, Tensor offsets) -> Tensor",
    kernel=_sums_segments, infer=lambda x, offsets: graphffi.like(x),
    dtypes="float32, int32 -> float32", dims="n, [k] -> n",
)  # fmt: skip


def _reads_after(x: Any, out: Any) -> None:
    source = np.from_dlpack(x)
    after = ctypes.c_float.from_address(source.ctypes.data + source.nbytes).value
    np.from_dlpack(out)[...] = source + after


reads_after = graphffi.define_op(
    "faults_py::reads_after", schema="(Tensor x) -> Tensor", kernel=_reads_after,
    infer=graphffi.like, dtypes="float32 -> float32",
)  # fmt: skip
