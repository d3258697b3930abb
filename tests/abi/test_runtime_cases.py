# SPDX-License-Identifier: Apache-2.0
"""The C functions as the cases of cpp/runtime_*.cc see them, on every runtime, one process each.

`make sanitize` runs them with sanitizers, of which the address sanitizer also reports what leaks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toolchain import HERE, RUNTIMES, Toolchain, cases_of

pytestmark = pytest.mark.slow

SOURCES = sorted((HERE / "cpp").glob("runtime_*.cc"))
CASES = [(source, case) for source in SOURCES for case in cases_of(source)]

LIBRARY = r"""
#include <tvm/ffi/extra/c_env_api.h>
TVM_FFI_DLL_EXPORT void* __tvm_ffi__library_ctx = 0;
TVM_FFI_DLL_EXPORT void* __test_mixed_context = 0;
__attribute__((constructor)) static void Register(void) {
  TVMFFIEnvModRegisterContextSymbol("__test_of_library", &__test_mixed_context);
}
#define KERNEL(name) TVM_FFI_DLL_EXPORT int __tvm_ffi_##name( \
    void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result)
KERNEL(add_one) {
  (void)handle, (void)num_args;
  *result = args[0];
  result->v_int64 += 1;
  return 0;
}
KERNEL(fail) {
  (void)handle, (void)num_args, (void)result;
  TVMFFIErrorSetRaisedFromCStr("ValueError", args[0].v_c_str);
  return -1;
}
KERNEL(_doc_broken) {
  (void)handle, (void)args, (void)num_args, (void)result;
  TVMFFIErrorSetRaisedFromCStr("ValueError", "no documentation today");
  return -1;
}
KERNEL(call_import) {
  (void)handle;
  TVMFFIObjectHandle import = 0;
  void* self = __atomic_load_n(&__tvm_ffi__library_ctx, __ATOMIC_ACQUIRE);
  int code = TVMFFIEnvModLookupFromImports(self, "test.mixed.identity", &import);
  return code != 0 ? code : TVMFFIFunctionCall(import, (TVMFFIAny*)args, num_args, result);
}
"""


@pytest.fixture(scope="session")
def libraries(toolchain: Toolchain) -> Path:
    """A folder with several libraries, each its own to the loader."""
    folder = toolchain.folder / "libraries"
    folder.mkdir()
    library = toolchain.library(LIBRARY, language="c")
    for number in range(4):
        shutil.copy(library, folder / f"library{number}.so")
    return folder


@pytest.fixture(autouse=True)
def named_libraries(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tells the programs where the libraries are."""
    monkeypatch.setenv("GRAPHFFI_TEST_LIBRARIES", str(libraries))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_case(toolchain: Toolchain, source: Path, case: str, runtime: str) -> None:
    toolchain.run(toolchain.program(source), case, runtime=runtime)


def test_there_are_cases() -> None:
    assert len(SOURCES) >= 5
    assert len(CASES) > 60
