# SPDX-License-Identifier: Apache-2.0
"""How the headers compile, and what a library built with them imports and exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from toolchain import HERE, INCLUDE, Toolchain

pytestmark = pytest.mark.slow

HEADERS = sorted(
    str(h.relative_to(INCLUDE))
    for folder in ("tvm", "graphffi")
    for h in (INCLUDE / folder).rglob("*.h")
)
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")

KERNEL = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
namespace ffi = tvm::ffi;
void add_one(ffi::TensorView x, ffi::TensorView y) {
  TVM_FFI_ICHECK_EQ(x.numel(), y.numel()) << "sizes";
  auto* in = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(y.data_ptr())[i] = in[i] + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, [](int x) { int a = x, b = x; return a + b; });
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(twice, "Doubles \\"x\\".");
"""


def symbols(library: Path, kind: str) -> set[str]:
    """The dynamic symbols of a library: ``U`` for imported ones, ``T`` for functions."""
    listing = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    return set(re.findall(rf"^.{{16}} {kind} (\S+)$", listing.stdout, re.MULTILINE))


@pytest.mark.parametrize("header", [h for h in HEADERS if "/cuda/" not in h])
def test_header_compiles_alone(header: str) -> None:
    text = f"#include <{header}>\n#include <{header}>\n"
    command = ["g++", "-std=c++17", *STRICT, "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
    result = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


def test_headers_compile_as_cpp20_in_either_order() -> None:
    headers = [h for h in HEADERS if "/cuda/" not in h]
    for order in (headers, headers[::-1]):
        text = "".join(f"#include <{header}>\n" for header in order)
        command = ["g++", "-std=c++20", *STRICT, "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
        result = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", ["tvm/ffi/c_api.h", "tvm/ffi/extra/c_env_api.h"])
def test_c_header_compiles_as_c11(header: str) -> None:
    command = ["gcc", "-std=c11", *STRICT, "-fsyntax-only", f"-I{INCLUDE}", "-x", "c", "-"]
    text = f"#include <{header}>\nint unused;\n"
    result = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


def test_cpp_names_live_in_an_inline_namespace_of_ours(toolchain: Toolchain) -> None:
    source = "#include <tvm/ffi/any.h>\nvoid probe(tvm::ffi::Any) {}\n"
    exported = symbols(toolchain.library(source), "T")
    assert exported == {"_Z5probeN3tvm3ffi11graphffi_v13AnyE"}


def test_tensor_kernel_imports_a_handful_of_c_functions(toolchain: Toolchain) -> None:
    library = toolchain.library(KERNEL, flags=("-fvisibility=hidden", "-O2"))
    imported = {name for name in symbols(library, "U") if "TVMFFI" in name or "tvm" in name}
    assert imported == {"TVMFFIBacktrace", "TVMFFIErrorSetRaised", "TVMFFIGetTypeInfo"}


def test_exported_functions_are_visible_in_hidden_libraries(toolchain: Toolchain) -> None:
    library = toolchain.library(KERNEL, flags=("-fvisibility=hidden",))
    assert symbols(library, "T") == {"__tvm_ffi_add_one", "__tvm_ffi_twice"}


def test_metadata_and_doc_are_exported_when_asked_for(toolchain: Toolchain) -> None:
    flags = ("-fvisibility=hidden", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1")
    assert symbols(toolchain.library(KERNEL, flags=flags), "T") == {
        "__tvm_ffi_add_one",
        "__tvm_ffi_twice",
        "__tvm_ffi__metadata_add_one",
        "__tvm_ffi__metadata_twice",
        "__tvm_ffi__doc_twice",
    }


def nvcc(source: Path, target: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    flags = (
        "-std=c++17",
        "-Werror",
        "all-warnings",
        f"-I{INCLUDE}",
        "-Xcompiler",
        "-fPIC,-Wall",
        *flags,
    )
    command = [str(NVCC), *flags, "-shared", "-cudart", "shared", str(source), "-o", str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_nvcc
@pytest.mark.parametrize("header", [h for h in HEADERS if "/cuda/" in h])
def test_cuda_header_compiles_alone(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cu"
    source.write_text(f"#include <{header}>\n#include <{header}>\n")
    result = nvcc(source, tmp_path / "alone.so")
    assert result.returncode == 0, result.stderr


@needs_nvcc
def test_cuda_kernel_with_dtype_dispatch_compiles(tmp_path: Path) -> None:
    result = nvcc(HERE / "cpp/scale_kernel.cu", tmp_path / "scale.so")
    assert result.returncode == 0, result.stderr
    assert "__tvm_ffi_scale" in symbols(tmp_path / "scale.so", "T")


@needs_nvcc
@pytest.mark.parametrize("driver_api", [0, 1])
def test_kernel_with_embedded_gpu_code_compiles(tmp_path: Path, driver_api: int) -> None:
    define = f"-DTVM_FFI_CUBIN_LAUNCHER_USE_DRIVER_API={driver_api}"
    result = nvcc(HERE / "cpp/cubin_kernel.cc", tmp_path / "cubin.so", define)
    assert result.returncode == 0, result.stderr
    exported = symbols(tmp_path / "cubin.so", "T")
    assert {"__tvm_ffi_run_linked", "__tvm_ffi_run_bytes", "__tvm_ffi_run_clusters"} <= exported
    loads = "cuLibraryLoadData" if driver_api else "cudaLibraryLoadData"
    assert any(name.startswith(loads) for name in symbols(tmp_path / "cubin.so", "U"))
