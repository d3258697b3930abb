# SPDX-License-Identifier: Apache-2.0
"""Modules: libraries of kernels, modules embedded in them, module classes of other libraries."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import pytest
from toolchain import HERE, RUNTIMES, Toolchain, cases_of

RUNNER = HERE / "cpp/module_runner.cc"
# These need a library of their own.
EMBEDDING = {"embedded_modules_are_imported", "malformed_embedding_is_refused"}
SUBCLASS = ("module_class_of_another_library_works", "object_of_a_library_outlives_its_module")
CASES = [c for c in cases_of(RUNNER) if c not in EMBEDDING and c not in SUBCLASS]
# Sanitizers would own malloc, and the cases read its statistics.
FLAGS = ("-pthread",)

KERNEL = r"""
#include <tvm/ffi/c_api.h>
#define KERNEL(name) TVM_FFI_DLL_EXPORT int __tvm_ffi_##name( \
    void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)
#define UNUSED (void)handle, (void)args, (void)num_args, (void)result
TVM_FFI_DLL_EXPORT void* __tvm_ffi__library_ctx = 0;
TVM_FFI_DLL_EXPORT void* __test_context = 0;
static int give(TVMFFIAny* result, int32_t type, int64_t number) {
  result->type_index = type;
  result->zero_padding = 0;
  result->v_int64 = number;
  return 0;
}
KERNEL(add_one) { UNUSED; return give(result, kTVMFFIInt, args[0].v_int64 + 1); }
KERNEL(handle) { UNUSED; return give(result, kTVMFFIInt, (int64_t)handle); }
KERNEL(context) { UNUSED; return give(result, kTVMFFIOpaquePtr, (int64_t)__test_context); }
KERNEL(library_ctx) {
  UNUSED;
  return give(result, kTVMFFIOpaquePtr, (int64_t)__tvm_ffi__library_ctx);
}
KERNEL(fail) { UNUSED; TVMFFIErrorSetRaisedFromCStr("ValueError", "from the kernel"); return -1; }
KERNEL(_metadata_add_one) {
  UNUSED;
  TVMFFIByteArray text = {"{\"a\":1}", 7};
  return TVMFFIStringFromByteArray(&text, result);
}
"""
OTHER = r"""
#include <tvm/ffi/c_api.h>
TVM_FFI_DLL_EXPORT int __tvm_ffi_times_two(void* handle, const TVMFFIAny* args, int32_t num_args,
                                           TVMFFIAny* result) {
  (void)handle, (void)num_args;
  *result = args[0];
  result->v_int64 *= 2;
  return 0;
}
"""
# Against apache's headers.
SUBCLASSING = r"""
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
namespace ffi = tvm::ffi;
class TestModule : public ffi::ModuleObj {
 public:
  const char* kind() const final { return "test_kind"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name != "plus") return ffi::Function(nullptr);
    return ffi::Function::FromTyped([](int64_t x) { return x + 10; });
  }
  ffi::Optional<ffi::String> GetFunctionDoc(const ffi::String&) final {
    return ffi::String("adds ten");
  }
  ffi::String InspectSource(const ffi::String&) const final { return "the source of it"; }
};
static ffi::Module Make() { return ffi::Module(ffi::make_object<TestModule>()); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make, Make);
"""


@pytest.fixture
def libraries(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """The toolchain, with the libraries of the cases compiled and named."""
    monkeypatch.setenv("KERNEL", str(toolchain.library(KERNEL, language="c")))
    monkeypatch.setenv("OTHER", str(toolchain.library(OTHER, language="c")))
    return toolchain


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", CASES)
def test_modules(libraries: Toolchain, case: str, runtime: str) -> None:
    libraries.run(libraries.program(RUNNER, flags=FLAGS), case, runtime=runtime)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", SUBCLASS)
def test_module_class_of_another_library(
    libraries: Toolchain, monkeypatch: pytest.MonkeyPatch, case: str, runtime: str
) -> None:
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        pytest.skip("apache-tvm-ffi is not installed")
    include = Path(spec.origin).parent / "include"
    flags = ["-fvisibility=hidden", "-w"]
    subclass = libraries.library(SUBCLASSING, flags=flags, include=include)
    monkeypatch.setenv("SUBCLASS", str(subclass))
    libraries.run(libraries.program(RUNNER, flags=FLAGS), case, runtime=runtime)


def numbers(*values: int) -> bytes:
    """A list, as the format writes it: the count and the entries."""
    return struct.pack(f"<{len(values) + 1}Q", len(values), *values)


def text(content: bytes) -> bytes:
    """A text with its length."""
    return struct.pack("<Q", len(content)) + content


def sized(payload: bytes, size: int | None = None) -> bytes:
    """The whole block, whose size may be wrong on purpose."""
    return struct.pack("<Q", len(payload) if size is None else size) + payload


def embedding(toolchain: Toolchain, block: bytes) -> str:
    """The path of a library with the block embedded."""
    array = ",".join(str(byte) for byte in block)
    source = f"{OTHER.replace('times_two', 'unrelated')}\n"
    source += f"TVM_FFI_DLL_EXPORT const unsigned char __tvm_ffi__library_bin[] = {{{array}}};"
    return str(toolchain.library(source, language="c"))


LIB = text(b"_lib")
COPY = text(b"copy") + text(b"some longer bytes")
GOOD = numbers(0, 1, 1) + numbers(1) + LIB + COPY
MALFORMED = {
    "empty": sized(b""),
    "no modules": sized(numbers(0) + numbers()),
    "no rows": sized(numbers() + numbers()),
    "truncated count": sized(GOOD, 4),
    "truncated list": sized(GOOD, 20),
    "truncated kind": sized(numbers(0, 0) + numbers() + LIB, 35),
    "shorter than it says": sized(GOOD, 1 << 40),
    "shorter than its size": b"\1\2\3",
    "huge count": sized(struct.pack("<Q", 2**61) + bytes(64)),
    "huge text": sized(numbers(0, 0) + numbers() + struct.pack("<Q", 2**63)),
    "decreasing rows": sized(numbers(0, 2, 1) + numbers(1, 1) + LIB + LIB),
    "row behind the children": sized(numbers(0, 9) + numbers() + LIB),
    "child out of range": sized(numbers(0, 1) + numbers(7) + LIB),
    "module imports itself": sized(numbers(0, 1) + numbers(0) + LIB),
    "loop": sized(numbers(0, 1, 2) + numbers(1, 0) + LIB + LIB),
    "too many modules": sized(numbers(*[0] * 4098) + numbers() + LIB * 4097),
    "itself twice": sized(numbers(0, 1, 1) + numbers(1) + LIB + LIB),
    "long loop": sized(numbers(0, 1, 2, 3) + numbers(1, 2, 1) + LIB + LIB + LIB),
    "unknown kind": sized(numbers(0, 0) + numbers() + text(b"nobody") + text(b"")),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_embedded_modules(
    libraries: Toolchain, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    monkeypatch.setenv("EMBEDDING", embedding(libraries, sized(GOOD)))
    program = libraries.program(RUNNER, flags=FLAGS)
    libraries.run(program, "embedded_modules_are_imported", runtime=runtime)


# Apache's reads behind the end of some of these.
@pytest.mark.parametrize("block", MALFORMED.values(), ids=MALFORMED)
def test_malformed_embedded_modules_are_refused(
    libraries: Toolchain, monkeypatch: pytest.MonkeyPatch, block: bytes
) -> None:
    monkeypatch.setenv("EMBEDDING", embedding(libraries, block))
    program = libraries.program(RUNNER, flags=FLAGS)
    libraries.run(program, "malformed_embedding_is_refused", runtime="bundled")
