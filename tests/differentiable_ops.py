# SPDX-License-Identifier: Apache-2.0
"""Ops with gradient and batching rules, for the tests of both plugins.

Each `<name>` has a reference `reference_<name>`, written with what torch tensors and JAX arrays
both have. The kernels take float32 on the CPU, row-major.
"""

from __future__ import annotations

from typing import NamedTuple

import graphffi
from graphffi import Tensor

KERNELS = r"""
#include <tvm/ffi/tvm_ffi.h>

#include <cmath>
#include <complex>

namespace ffi = tvm::ffi;

const float* Read(const ffi::TensorView& x) {
  TVM_FFI_CHECK(x.IsContiguous() && x.dtype() == (DLDataType{kDLFloat, 32, 1}), ValueError)
      << "operand: expected contiguous float32";
  return reinterpret_cast<const float*>(static_cast<const char*>(x.data_ptr()) + x.byte_offset());
}
float* Write(const ffi::TensorView& x) { return const_cast<float*>(Read(x)); }

void mul(ffi::TensorView x, ffi::TensorView y, ffi::TensorView out) {
  for (int64_t i = 0; i < out.numel(); ++i) Write(out)[i] = Read(x)[i] * Read(y)[i];
}

void mul_complex(ffi::TensorView x, ffi::TensorView y, ffi::TensorView out) {
  using Complex = std::complex<float>;
  for (int64_t i = 0; i < out.numel(); ++i) {
    static_cast<Complex*>(out.data_ptr())[i] =
        static_cast<const Complex*>(x.data_ptr())[i] * static_cast<const Complex*>(y.data_ptr())[i];
  }
}

// [rows, n], [n] -> [rows, n], [rows]
void scale_rows(ffi::TensorView x, ffi::TensorView weight, double eps, ffi::TensorView out,
                ffi::TensorView inverse) {
  int64_t n = weight.numel(), rows = inverse.numel();
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = Read(x) + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += row[i] * row[i];
    float scale = 1 / std::sqrt(sum / static_cast<float>(n) + static_cast<float>(eps));
    Write(inverse)[r] = scale;
    for (int64_t i = 0; i < n; ++i) Write(out)[r * n + i] = row[i] * scale * Read(weight)[i];
  }
}

void combine(ffi::Array<ffi::Tensor> xs, ffi::Optional<ffi::TensorView> bias,
             ffi::Array<double> factors, ffi::TensorView out) {
  float* to = Write(out);
  for (int64_t i = 0; i < out.numel(); ++i) {
    to[i] = bias.has_value() ? Read(bias.value())[i] : 0;
    for (size_t k = 0; k < xs.size(); ++k) {
      to[i] += static_cast<const float*>(xs[k].data_ptr())[i] * static_cast<float>(factors[k]);
    }
  }
}

// The largest element of each row and its position.
void largest(ffi::TensorView x, ffi::TensorView value, ffi::TensorView position) {
  int64_t n = x.size(-1);
  for (int64_t r = 0; r < value.numel(); ++r) {
    const float* row = Read(x) + r * n;
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) best = row[i] > row[best] ? i : best;
    Write(value)[r] = row[best];
    static_cast<int32_t*>(position.data_ptr())[r] = static_cast<int32_t>(best);
  }
}
void put(ffi::TensorView values, ffi::TensorView positions, ffi::TensorView out) {
  int64_t n = out.size(-1);
  for (int64_t i = 0; i < out.numel(); ++i) Write(out)[i] = 0;
  for (int64_t r = 0; r < values.numel(); ++r) {
    Write(out)[r * n + static_cast<const int32_t*>(positions.data_ptr())[r]] = Read(values)[r];
  }
}

void accumulate(ffi::TensorView total, ffi::TensorView x) {
  for (int64_t i = 0; i < x.numel(); ++i) Write(total)[i] += Read(x)[i];
}
"""

_NAMES = ["mul", "mul_complex", "scale_rows", "combine", "largest", "put", "accumulate"]
_kernels = graphffi.cpp.load_inline("differentiable_ops", cpp_sources=KERNELS, functions=_NAMES)


@graphffi.op("gradtest::mul", kernel=_kernels.mul, vmap="broadcast")
def mul(x: Tensor, y: Tensor) -> Tensor:
    """x * y, elementwise: its rule is made of itself, so that it goes on forever."""
    graphffi.check(
        tuple(x.shape) == tuple(y.shape), f"operand 'y': expected {x.shape}, got {y.shape}"
    )
    return graphffi.like(x)


mul.register_vjp(lambda saved, grad: (mul(grad, saved.y), mul(grad, saved.x)), save=("x", "y"))


def reference_mul(x, y):
    return x * y


@graphffi.op("gradtest::mul_complex", kernel=_kernels.mul_complex, vmap="broadcast")
def mul_complex(x: Tensor, y: Tensor) -> Tensor:
    """The product of complex64 numbers."""
    return graphffi.like(x)


mul_complex.register_vjp(lambda saved, grad: (grad * saved.y, grad * saved.x), save=("x", "y"))


class Scaled(NamedTuple):
    """Results of `scale_rows`."""

    out: Tensor
    inverse: Tensor


def _batch_scale_rows(size, batched, x, weight, eps):
    return NotImplemented if batched.weight else scale_rows(x, weight, eps)


@graphffi.op("gradtest::scale_rows", kernel=_kernels.scale_rows, vmap=_batch_scale_rows)
def scale_rows(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Scaled:
    """Root-mean-square norm, and the factors that it found. x: [..., n], weight: [n]."""
    graphffi.check(
        len(weight.shape) == 1, f"operand 'weight': expected 1 dimension, got {weight.shape}"
    )
    return Scaled(graphffi.like(x), graphffi.like(x, shape=x.shape[:-1]))


@graphffi.op(
    "gradtest::scale_rows_with_dims",
    kernel=_kernels.scale_rows,
    vmap="broadcast",
    dims="... [n], [n] -> ... [n], ...",
)
def scale_rows_with_dims(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Scaled:
    """The same; what takes a batch follows from its dims."""
    return Scaled(graphffi.like(x), graphffi.like(x, shape=x.shape[:-1]))


def _scale_rows_backward(saved, grad, grad_inverse):
    x, weight, inverse = saved.x, saved.weight, saved.inverse[..., None]
    n = x.shape[-1]
    from_out = grad * weight
    projected = (from_out * x).sum(-1)[..., None] + grad_inverse[..., None]
    grad_x = from_out * inverse - x * inverse * inverse * inverse * projected / n
    grad_weight = (grad * x * inverse).reshape(-1, n).sum(0)
    return grad_x, grad_weight


scale_rows.register_vjp(_scale_rows_backward, save=("x", "weight", "inverse"))
scale_rows_with_dims.register_vjp(_scale_rows_backward, save=("x", "weight", "inverse"))


def reference_scale_rows(x, weight, eps=1e-5):
    inverse = ((x * x).mean(-1) + eps) ** -0.5
    return x * inverse[..., None] * weight, inverse


@graphffi.op("gradtest::combine", kernel=_kernels.combine, vmap="sequential")
def combine(xs: list[Tensor], bias: Tensor | None, factors: list[float]) -> Tensor:
    """The sum of factors[i] * xs[i], plus a bias."""
    return graphffi.like(xs[0])


combine.register_vjp(
    lambda saved, grad: (
        [grad * f for f in saved.factors],
        None if saved.bias is None else grad,
    ),
    save=("bias",),
)


def reference_combine(xs, bias, factors):
    total = sum(x * f for x, f in zip(xs, factors, strict=True))
    return total if bias is None else total + bias


class Largest(NamedTuple):
    """Results of `largest`."""

    value: Tensor
    position: Tensor


@graphffi.op("gradtest::put", kernel=_kernels.put, plan="values, positions, out")
def put(values: Tensor, positions: Tensor, n: int) -> Tensor:
    """Rows of zeros with one value each."""
    return graphffi.like(values, shape=(*values.shape, n))


@graphffi.op("gradtest::largest", kernel=_kernels.largest, plan="x, value, position")
def largest(x: Tensor, n: int) -> Largest:
    """The largest element of each row of x: [..., n], and its position."""
    shape = x.shape[:-1]
    return Largest(graphffi.like(x, shape=shape), graphffi.empty(shape, "int32"))


def _largest_backward(saved, grad, grad_position):
    assert grad_position is None
    return put(grad, saved.position, saved.n)


largest.register_vjp(_largest_backward, save=("position",))


@graphffi.op(
    "gradtest::accumulate", kernel=_kernels.accumulate, mutates=("total",), vmap="broadcast"
)
def accumulate(total: Tensor, x: Tensor) -> None:
    """total += x."""


@graphffi.op("gradtest::no_rules", kernel=_kernels.mul)
def no_rules(x: Tensor, y: Tensor) -> Tensor:
    """x * y, which nothing can transform."""
    return graphffi.like(x)


def with_wrong_batches(name):
    """An op with a batching rule that is wrong in a way of its own for each size of a batch."""
    return graphffi.define_op(
        name,
        schema="(Tensor x) -> Tensor y",
        kernel=mul.definition.kernels[0].reference,
        plan="x, x, y",
        infer=graphffi.like,
        vmap=lambda size, batched, x: {4: x[0], 2: x > 0, 1: x[:, 0]}.get(size, 3),
    )


def with_gradients(name, returned):
    """x * y, whose gradient rule returns the last item of the list, or raises it."""
    op = graphffi.define_op(
        name,
        schema="(Tensor x, Tensor y) -> Tensor",
        kernel=mul.definition.kernels[0].reference,
        infer=lambda x, y: graphffi.like(x),
    )

    def backward(saved, grad):
        if isinstance(returned[-1], Exception):
            raise returned[-1]
        return returned[-1]

    op.register_vjp(backward)
    return op
