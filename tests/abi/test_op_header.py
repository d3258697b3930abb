# SPDX-License-Identifier: Apache-2.0
"""`GRAPHFFI_EXPORT_OP` on both sets of headers; wrong schemas do not compile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_header_cross import apache_include
from toolchain import INCLUDE

import graphffi

pytestmark = pytest.mark.slow

KERNEL = """
#include <graphffi/op.h>
namespace ffi = tvm::ffi;
void Scale(ffi::TensorView x, double factor, ffi::TensorView out) {}
ffi::Tensor Same(ffi::Tensor x) { return x; }
void Typed(graphffi::View<const float, 1> x, ffi::Optional<graphffi::View<const void>> mask,
           graphffi::View<float, 1> out) {
  for (int64_t i = 0; i < x.size(0); ++i) out[i] = -x[i];
}
void Gather(ffi::Array<ffi::Tensor> xs, ffi::Optional<ffi::Tensor> mask, int64_t n, bool flag,
            ffi::String mode, DLDataType kind, ffi::Shape sizes, ffi::TensorView out) {}
void Sizes(int64_t a, int64_t b, int64_t c, double d, ffi::Array<int64_t> e, ffi::TensorView out) {
  auto* to = static_cast<int64_t*>(out.data_ptr());
  for (int64_t value : {a, b, c, static_cast<int64_t>(d), e[0], e[1]}) *to++ = value;
}
"""
GOOD = """
GRAPHFFI_EXPORT_OP(scale, Scale, "(Tensor x, float factor=1e-6) -> Tensor", "shape: like(x)");
GRAPHFFI_EXPORT_OP(half, Scale, "(Tensor x) -> Tensor", "plan: x, 0.5, out", "shape: like(x)");
GRAPHFFI_EXPORT_OP(same, Same, "(Tensor x) -> Tensor y", "plan: x", "shape: like(x)", "doc: A\\nB");
GRAPHFFI_EXPORT_OP(gather, Gather,
                   "(Tensor[] xs, Tensor? mask, int n, bool flag, str mode='a,b', dtype kind, "
                   "int[] sizes) -> Tensor",
                   "shape: empty(sizes, kind)");
GRAPHFFI_EXPORT_OP(typed, Typed, "(Tensor x, Tensor? mask) -> Tensor", "shape: like(x)");
GRAPHFFI_EXPORT_OP(all, Scale, "(Tensor x, float f) -> Tensor", "plan: *inputs, f, *outputs",
                   "shape: like(x)");
GRAPHFFI_EXPORT_OP(sizes, Sizes, "(Tensor x, int n) -> Tensor", "shape: empty([6], int64)",
                   "plan: (x.numel + 3) // 4, -n, min(n, x.shape[0]), 2e+0, (2 * n - 1, -2), out");
constexpr auto kTwice = [](ffi::TensorView x, double, ffi::TensorView out) noexcept {};
"""


def compile_with(include: Path, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    link = folder / "graphffi"  # op.h alone, without our other headers
    if not link.exists():
        os.symlink(INCLUDE / "graphffi", link)
    flags = ["-std=c++17", "-Wall", "-fPIC", "-shared", f"-I{include}", f"-I{folder}"]
    command = ["g++", *flags, "-x", "c++", "-", "-o", str(folder / "libheader.so")]
    return subprocess.run(command, input=KERNEL + text, text=True, capture_output=True)


@pytest.mark.parametrize("headers", ["ours", "apache"])
def test_ops_export_with_both_headers(headers: str, tmp_path: Path) -> None:
    include = INCLUDE if headers == "ours" else apache_include()
    result = compile_with(include, tmp_path, GOOD)
    assert result.returncode == 0, result.stderr
    ops = graphffi.load_ops(tmp_path / "libheader.so", namespace=f"header_{headers}")
    assert sorted(vars(ops)) == ["all", "gather", "half", "same", "scale", "sizes", "typed"]
    assert ops.typed(np.ones(2, "float32"), None).tolist() == [-1, -1]
    assert ops.sizes(np.ones((3, 7)), 5).tolist() == [6, -5, 3, 2, 9, -2]
    with pytest.raises(TypeError, match=r"`View<(const )?float32, 1>` but got `float64"):
        ops.typed(np.ones(2), None)
    assert ops.same.__doc__ == "A\nB"
    assert ops.same.definition.kernels[0].traits.pass_owning_tensor
    assert not ops.scale.definition.kernels[0].traits.pass_owning_tensor


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('Scale, "(Tensor x) -> Tensor"', "passes another number of values than the function"),
        ('Scale, "(Tensor x, str f) -> Tensor"', "does not take what the schema"),
        ('Scale, "(Tensor? x, float f) -> Tensor"', "does not take what the schema"),
        ('Scale, "(Tensor x, float f) -> Tensor", "plan: f, x, out"', "does not take what the sch"),
        ('Scale, "(Tensor x, float f) -> Tensor", "plan: x, g, out"', "the plan names what is no"),
        ('Scale, "(Tensor x, float f) -> Tensor", "plan: x, f, x"', "passes no results, and the f"),
        ('Scale, "(Tensor x, int n) -> Tensor", "plan: x.numel, n, out"', "does not take what the"),
        ('Scale, "(Tensor x, float f) = Tensor"', "the schema does not parse"),
        ('Scale, "(Tensor x, real f) -> Tensor"', "the schema does not parse"),
        ('Scale, "(Tensor x, float f) -> Tensor", "shpe: like(x)"', 'expected fields such as "sh'),
        ('Scale, "(Tensor x, float f) -> Tensor", "doc: x", "plan: x"', "expected fields such"),
    ],
)  # fmt: skip
def test_a_wrong_schema_does_not_compile(text: str, problem: str, tmp_path: Path) -> None:
    result = compile_with(INCLUDE, tmp_path, f"GRAPHFFI_EXPORT_OP(wrong, {text});\n")
    assert result.returncode != 0
    assert f"GRAPHFFI_EXPORT_OP: {problem}" in result.stderr or problem in result.stderr


OPERAND = """
#include <graphffi/operand.h>
#include <graphffi/op.h>
void Take(tvm::ffi::TensorView x_view, tvm::ffi::TensorView out_view) {
  const graphffi::Operand x("take", "x", x_view), out("take", "out", out_view);
  x.ExpectDtype({graphffi::kFloat32, graphffi::kFloat64});
  x.ExpectRank(2, "[rows, width]");
  out.ExpectShapeLike(x, x.size(1));
  TVM_FFI_CHECK(x.stride(-1) == 1 && x.stride(-2) == x.stride(0), InternalError) << "strides";
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(take, Take);
"""


@pytest.mark.parametrize("headers", ["ours", "apache"])
def test_operands_are_checked_with_both_headers(headers: str, tmp_path: Path) -> None:
    include = INCLUDE if headers == "ours" else apache_include()
    result = compile_with(include, tmp_path, OPERAND)
    assert result.returncode == 0, result.stderr
    take = graphffi.load_module(str(tmp_path / "libheader.so")).take
    take(np.zeros((2, 3), "float32"), np.zeros((2, 3), "float32"))
    for x, out, text in (
        (np.zeros((2, 3), "int32"), np.zeros((2, 3)), "'x': expected float32 or float64, got int"),
        (np.zeros(3), np.zeros(3), r"'x': expected \[rows, width\], got float64\[3\] on cpu"),
        (np.zeros((2, 3)), np.zeros((2, 4)), r"'out': expected shape \[2, 3\], got float64\[2, 4"),
        (np.zeros((2, 3)), np.zeros(()), r"'out': expected shape \[2, 3\], got float64\[\]"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"take: operand {text}"):
            take(x, out)
