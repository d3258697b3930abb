# SPDX-License-Identifier: Apache-2.0
"""Kernels of direct calls: those that libraries embed, and what they get and raise."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
import torch

import graphffi

if TYPE_CHECKING:
    from pathlib import Path

X = torch.arange(6.0).reshape(2, 3)


def embedding(outer: str, tmp_path: Path) -> str:
    """Builds a library with a kernel `fill`, whose modules begin with one of kind `outer`."""

    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values) + 1}Q", len(values), *values)

    def text(content: bytes) -> bytes:
        return struct.pack("<Q", len(content)) + content

    modules = text(outer.encode()) + (b"" if outer == "_lib" else text(b"nothing"))
    block = numbers(0, 0) + numbers() + modules
    source = tmp_path / f"{outer}.cc"
    source.write_text(
        FILL.replace("VALUE", "1")
        + 'extern "C" TVM_FFI_DLL_EXPORT const unsigned char __tvm_ffi__library_bin[] = {'
        + ",".join(map(str, text(block)))
        + "};\n"
    )
    return str(graphffi.cpp.build(outer, sources=[source]))


FILL = """
#include <tvm/ffi/tvm_ffi.h>

void fill(tvm::ffi::TensorView x) { static_cast<float*>(x.data_ptr())[0] = VALUE; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill, fill);
"""


def test_modules_in_a_library_say_what_its_kernels_are(tmp_path: Path) -> None:
    (tmp_path / "other.cc").write_text(FILL.replace("VALUE", "2"))
    other = graphffi.load_module(str(graphffi.cpp.build("other", sources=[tmp_path / "other.cc"])))
    graphffi.register_global_func("ffi.Module.load_from_bytes.graphffi_other", lambda _: other)
    for outer, value in (("_lib", 1.0), ("graphffi_other", 2.0)):
        op = graphffi.define_op(
            f"mytest::fill_by{outer}",
            schema="(Tensor(a!) x) -> ()",
            kernel=f"{embedding(outer, tmp_path)}::fill",
        )
        assert op(torch.zeros(1)).item() == value


def test_exceptions_of_python_kernels_are_the_same_objects() -> None:
    raised = KeyError("mine")

    def kernel(x: Any, y: Any) -> None:
        raise raised

    op = graphffi.define_op(
        "mytest::raises", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like
    )
    for _ in range(2):
        with pytest.raises(KeyError) as error:
            op(X)
        assert error.value is raised


def test_kernels_that_call_and_keep_get_tensors_of_their_own(ops: Any) -> None:
    kept: list[Any] = []

    def kernel(*tensors: Any) -> None:
        depth = int(torch.from_dlpack(tensors[0])[0])
        kept.append(tensors[1])
        if depth > 0:
            op(*[torch.full((2,), float(depth - 1)) for _ in range(60)])
            with pytest.raises(ValueError, match="luck"):
                ops.fail(X, "ValueError")
        assert [torch.from_dlpack(t).tolist() for t in tensors] == [[depth] * 2] * 60

    schema = ", ".join(f"Tensor x{i}" for i in range(59))
    op = graphffi.define_op(
        "mytest::keeps_nested", schema=f"({schema}, Tensor(a!) y) -> ()", kernel=kernel
    )
    for _ in range(2):
        kept.clear()
        op(*[torch.full((2,), 3.0) for _ in range(60)])
        torch.full((2,), 9.0)  # would take memory that is free
        assert [torch.from_dlpack(t).tolist() for t in kept] == [[d] * 2 for d in (3, 2, 1, 0)]
