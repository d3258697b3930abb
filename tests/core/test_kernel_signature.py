# SPDX-License-Identifier: Apache-2.0
"""Definitions whose plan is not what their kernel takes, as its library's metadata says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import graphffi

KERNELS = r"""
void scale(tvm::ffi::TensorView x, double factor, tvm::ffi::TensorView out) {}
void gather(tvm::ffi::Array<tvm::ffi::Tensor> xs, tvm::ffi::Optional<tvm::ffi::Tensor> w,
            DLDataType kind, bool flag, int64_t n, tvm::ffi::TensorView out) {}
void anything(tvm::ffi::Any a, tvm::ffi::TensorView out) {}
"""
numbers = itertools.count()


@pytest.fixture(scope="module")
def kernels() -> Any:
    names = ["scale", "gather", "anything"]
    return graphffi.cpp.load_inline("signatures", cpp_sources=KERNELS, functions=names)


def define(kernel: Any, schema: str, plan: str = "") -> Any:
    name = f"mytest::signature_{next(numbers)}"
    return graphffi.define_op(
        name, schema=schema, kernel=kernel, plan=plan, infer=lambda *args: graphffi.like(args[0])
    )


@pytest.mark.parametrize(
    ("name", "schema", "plan"),
    [
        ("scale", "(Tensor x, float factor) -> Tensor out", ""),
        ("scale", "(Tensor x, int factor) -> Tensor out", ""),  # ints are converted
        ("scale", "(Tensor x) -> Tensor out", "x, 2.5, out"),
        ("gather", "(Tensor x, Tensor[] xs, Tensor? w, dtype kind, bool flag, int n) -> Tensor out",
         "xs, w, kind, flag, n, out"),
        ("gather", "(Tensor x, Tensor y) -> Tensor out", "(x, y), None, \"int8\", true, 3, "
         "out"),
        ("anything", "(Tensor x, str s) -> Tensor out", "s, out"),
    ],
)  # fmt: skip
def test_a_plan_that_fits_is_taken(kernels: Any, name: str, schema: str, plan: str) -> None:
    define(getattr(kernels, name), schema, plan)


@pytest.mark.parametrize(
    ("schema", "plan", "problem"),
    [
        ("(Tensor x) -> Tensor out", "",
         r"plan \(x, out\): expected 3 values for the kernel scale\(.*\) -> None, got 2$"),
        ("(Tensor x, float f, float g) -> Tensor out", "",
         r"plan \(x, f, g, out\): expected 3 values for the kernel .*, got 4$"),
        ("(Tensor x, float f) -> Tensor out", "x, out, f",
         r"plan \(x, out, f\): value 1: expected float, got a tensor; value 2: expected "
         r"DLTensor\*, got a float; the kernel is scale\("),
        ("(Tensor x, str f) -> Tensor out", "", "value 1: expected float, got a str; the kernel"),
        ("(Tensor[] x, float f) -> Tensor out", "", r"value 0: expected DLTensor\*, got a list; "),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_is_refused(
    kernels: Any, schema: str, plan: str, problem: str
) -> None:
    with pytest.raises(TypeError, match=rf"^mytest::signature_\d+: .*{problem}"):
        define(kernels.scale, schema, plan)


def test_a_refused_definition_leaves_the_name_free(kernels: Any) -> None:
    arguments: dict[str, Any] = {"kernel": kernels.scale, "infer": lambda x, *_: graphffi.like(x)}
    with pytest.raises(TypeError):
        graphffi.define_op("mytest::refused", schema="(Tensor x) -> Tensor out", **arguments)
    graphffi.define_op("mytest::refused", schema="(Tensor x, float f) -> Tensor out", **arguments)


def test_kernels_without_metadata_are_taken_as_they_are() -> None:
    define(lambda *args: None, "(Tensor x) -> Tensor out")
    define("some.global.name", "(Tensor x) -> Tensor out")
    define("/no/such/library.so::scale", "(Tensor x) -> Tensor out")


@pytest.mark.parametrize("plan", ["x, out", "x, 1.0, 2.0, out", "x, x, out"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_error_of_a_plan_that_no_metadata_checks_names_the_op(
    plan: str, framework: str
) -> None:
    library = graphffi.cpp.build(
        "signatures_without_metadata",
        cpp_sources=f"{KERNELS}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);",
        extra_cflags=["-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=0"],
    )
    op = define(f"{library}::scale", "(Tensor x) -> Tensor out", plan)
    x = pytest.importorskip(framework).ones(3)
    signature = r"when calling: `scale\(0: DLTensor\*, 1: float, 2: DLTensor\*\) -> void`\."
    text = rf"^{op.name}: Mismatched type on argument #1 {signature} Expected `float` but got `ffi"
    if plan != "x, x, out":
        text = rf"^{op.name}: Mismatched number of arguments {signature} Expected 3 but got [24] "
        text += r"arguments; the plan of the call says which values the kernel gets(\n|$)"
    for _ in range(2):
        with pytest.raises(TypeError, match=text):
            op(x)
