# SPDX-License-Identifier: Apache-2.0
"""Modules of PTX and cubins, on a stand-in of CUDA's driver: there need be no GPU."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi

HERE = Path(__file__).resolve().parent

# Tensors that say they are on a GPU, in memory of the host.
TENSORS = """
struct HostMemory {
  void AllocData(DLTensor* t) { t->data = std::calloc(1, tvm::ffi::GetDataSize(*t) + 1); }
  void FreeData(DLTensor* t) { std::free(t->data); }
};
tvm::ffi::Tensor make(int64_t n, int device_type, int device_id) {
  DLDevice device{static_cast<DLDeviceType>(device_type), device_id};
  DLDataType dtype{kDLFloat, 32, 1};
  auto t = tvm::ffi::Tensor::FromNDAlloc(HostMemory(), tvm::ffi::Shape({n}), dtype, device);
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(t.data_ptr())[i] = static_cast<float>(i);
  return t;
}
double at(tvm::ffi::TensorView t, int64_t i) {
  if (i < 0) TVM_FFI_THROW(ValueError) << "no element " << i;
  return static_cast<float*>(t.data_ptr())[i];
}
"""

PRELUDE = """
import ctypes, os, sys
os.environ["GRAPHFFI_LIBCUDA"] = driver_path = sys.argv[1]
import graphffi
tensors = graphffi.load_module(sys.argv[2])
driver = ctypes.CDLL(driver_path)
def read(name, kind=ctypes.c_int): return kind.in_dll(driver, name).value
def launch(): return list((ctypes.c_uint * 7).in_dll(driver, "fake_launch"))
def failure(call, *args):
    try: call(*args)
    except Exception as error: return f"{type(error).__name__}: {error}"
types = ["tensor", "tensor", "float32", "int64"]
module = graphffi.cpp.cuda_module("fake", {"scale": types, "absent": [], "narrow": ["uint8"]})
x, out, host = tensors.make(5, 2, 0), tensors.make(5, 2, 0), tensors.make(5, 1, 0)
def values(t): return [tensors.at(t, i) for i in range(5)]
class Foreign:  # of a framework that names no stream
    def __init__(self, tensor): self.tensor = tensor
    def __dlpack__(self, **_): return self.tensor.__dlpack__()
class Streamed(Foreign):
    def __tvm_ffi_env_stream__(self): return 0x1230
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("cuda")
    driver = folder / "libcuda.so.1"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(HERE / "fake_cuda_driver.c"), "-o", str(driver)], check=True)
    tensors = graphffi.cpp.build("tensors", cpp_sources=TENSORS, functions=["make", "at"])
    return [str(driver), tensors]


@pytest.fixture
def run(libraries: list[str]) -> Any:
    """Runs code in a process of its own, since a process opens one driver."""

    def run_code(code: str, *arguments: str) -> str:
        command = [sys.executable, "-c", PRELUDE + code, *libraries, *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run_code


def test_kernel_is_launched_on_the_stream(run: Any) -> None:
    code = """
assert read("fake_loads") == 0
with graphffi.use_stream("cuda:0", 0x1234):
    module.scale(x, out, 2.5, 5, 7, 6, 5, 4, 3, 2, 1)
print(values(out), launch(), hex(read("fake_stream", ctypes.c_void_p)))
module.scale(x, out, 0.5, 5, 1, 1, 1, 32, 1, 1, 100_000)
print(values(out), read("fake_stream", ctypes.c_void_p), read("fake_allowed_shared_memory"))
print(read("fake_loads"), module.kind, module.inspect_source())
"""
    assert run(code).splitlines() == [
        "[0.0, 2.5, 5.0, 7.5, 10.0] [7, 6, 5, 4, 3, 2, 1] 0x1234",
        "[0.0, 0.5, 1.0, 1.5, 2.0] None 100000",
        "1 graphffi_cuda fake",
    ]


def test_an_op_launches_with_a_plan_that_computes_the_grid(run: Any) -> None:
    code = """
op = graphffi.define_op("launch::scale", schema="(Tensor x, float factor, Tensor(a!) out) -> ()",
    kernel=module.scale, dims="[n], [n]", plan="x, out, factor, x.numel, (n + 3) // 4, 1, 1, "
    "max(4, -n), 1, 1, n * 8")
op(x, 2.5, out)
print(values(out), launch())
for n in (0, 9):
    op(tensors.make(n, 2, 0), 1.0, tensors.make(n, 2, 0))
    print(launch()[0], launch()[-1])
"""
    assert run(code).splitlines() == [
        "[0.0, 2.5, 5.0, 7.5, 10.0] [2, 1, 1, 4, 1, 1, 40]",
        "2 40",  # no blocks: not launched
        "3 72",
    ]


def test_empty_grid_launches_nothing(run: Any) -> None:
    code = "module.scale(x, out, 2.5, 5, 0, 1, 1, 1, 1, 1, 0); print(read('fake_loads'))"
    assert run(code) == "0\n"


def test_devices_load_the_image_once_and_for_good(run: Any) -> None:
    code = """
y = tensors.make(5, 2, 1)
launch_one = (1, 1, 1, 1, 1, 1, 0)
for t in (x, y, x, y):
    module.scale(t, t, 1.0, 5, *launch_one)
print(read("fake_loads"))
scale = module.scale
del module
scale(x, x, 1.0, 5, *launch_one)
del scale  # a captured graph may launch it again
print(read("fake_loads"), read("fake_unloads"))
"""
    assert run(code).split() == ["2", "2", "0"]


def test_consumers_of_a_tensor_wait_for_the_kernels_that_write_it(run: Any) -> None:
    """NULL and 1 are the default stream, on which kernels are unless one is set."""
    code = """
def order(stream, own=0):
    before = read("fake_orders")
    with graphffi.use_stream("cuda:0", own):
        x.__dlpack__(stream=stream)
    if read("fake_orders") == before:
        return "none"
    kinds = ("fake_earlier", "fake_later")
    return "-".join(hex(read(kind, ctypes.c_void_p) or 0) for kind in kinds)
print(*(order(stream) for stream in (None, 1, -1, 2, 0x1230)))
print(*(order(stream, 0x4560) for stream in (None, 1, -1, 2, 0x4560)))
print(read("fake_events"), driver.fake_num_contexts())
print(failure(order, 0))
print(failure(order, "1"))
print(host.__dlpack__(stream=None) is not None)
ctypes.c_int.in_dll(driver, "fake_calls_until_failure").value = 0
print(failure(order, 2), driver.fake_num_contexts())
"""
    lines = run(code).splitlines()
    assert lines[0] == "none none none 0x0-0x2 0x0-0x1230"
    assert lines[1] == "0x4560-0x0 0x4560-0x0 none 0x4560-0x2 none"
    assert lines[2] == "0 0"
    assert lines[3].startswith(
        "BufferError: graphffi.Tensor: __dlpack__: expected a stream: None, -1"
    )
    assert lines[4].startswith("TypeError: 'str' object cannot be interpreted as an integer")
    assert lines[5] == "True"
    assert lines[6] == "RuntimeError: graphffi: CUDA: cannot record an event: out of memory (2) 0"


def test_a_call_waits_for_tensors_of_frameworks_that_name_no_stream(run: Any) -> None:
    """Their framework neither waits for the kernel nor keeps the memory for it."""
    code = """
def waits(*arguments, own=0):
    before = read("fake_waits")
    with graphffi.use_stream("cuda:0", own):
        try: tensors.at(*arguments)
        except ValueError as error: print(error)
    return read("fake_waits") - before
y = tensors.make(5, 2, 1)
print(waits(x, 1), waits(Foreign(x), 1), waits(Foreign(y), 1), waits(Streamed(x), 1))
print(waits(Foreign(host), 1), waits(Foreign(x), 1, own=0x4560))
print(waits(Foreign(x), -1))
module.scale(Foreign(y), y, 1.0, 5, 1, 1, 1, 1, 1, 1, 0)
print(read("fake_retained"))  # each device's context once
ctypes.c_int.in_dll(driver, "fake_calls_until_failure").value = 0
print(failure(tensors.at, Foreign(x), 1), driver.fake_num_contexts())
"""
    failed = "RuntimeError: graphffi: CUDA: cannot wait for a stream: out of memory (2) 0"
    assert run(code).splitlines() == ["0 1 1 0", "0 0", "no element -1", "1", "2", failed]


def test_a_call_on_a_named_stream_waits_for_tensors_that_are_ready_on_the_default_one(
    run: Any,
) -> None:
    code = """
def order(a, b):
    before = read("fake_orders")
    module.scale(a, b, 2.0, 5, 1, 1, 1, 1, 1, 1, 0)
    later = read("fake_later", ctypes.c_void_p), read("fake_stream", ctypes.c_void_p)
    return read("fake_orders") - before, *(hex(stream or 0) for stream in later)
print(*order(Streamed(x), Foreign(out)), *order(Foreign(x), Streamed(out)), values(out)[1])
print(*order(Streamed(x), Streamed(out)), *order(Foreign(x), Foreign(out)))
ctypes.c_int.in_dll(driver, "fake_calls_until_failure").value = 0
print(failure(order, Foreign(x), Streamed(out)), driver.fake_num_contexts())
"""
    failed = "RuntimeError: graphffi: CUDA: cannot record an event: out of memory (2) 0"
    assert run(code).splitlines() == [
        "1 0x1230 0x1230 1 0x1230 0x1230 2.0",
        "0 0x1230 0x1230 0 0x1230 0x0",
        failed,
    ]


def test_an_op_on_the_runtimes_own_tensors_is_on_their_device(run: Any) -> None:
    code = """
kernels = {"streamed": lambda y, stream: print(stream.value), "scratch": lambda y, w: print(w)}
def in_place(name, plan, **options):
    return graphffi.define_op(f"cuda_tests::{name}", schema="(Tensor(a!) y) -> ()", plan=plan,
                              kernel=kernels[name], **options)
streamed = in_place("streamed", "y, stream")
scratch = in_place("scratch", "y, workspace", workspace=64)
with graphffi.use_stream("cuda:0", 0x4560):
    streamed(x)
    print(failure(scratch, x))
scratch(host)
"""
    lines = run(code).splitlines()
    assert lines[0] == str(0x4560)
    assert "allocator" in lines[1]  # no framework gives one
    assert lines[2] == "<graphffi.Tensor uint8[64] on cpu>"


def test_wrong_calls_are_refused(run: Any) -> None:
    code = """
one = (1, 1, 1, 1, 1, 1, 0)
print(failure(module.scale, x, out, 2.5))
print(failure(module.scale, x, "out", 2.5, 5, *one))
print(failure(module.scale, x, host, 2.5, 5, *one))
print(failure(module.scale, x, tensors.make(5, 2, 1), 2.5, 5, *one))
print(failure(module.scale, x, out, None, 5, *one))
print(failure(module.scale, x, out, 1.0, 5, -1, *one[1:]))
print(failure(module.narrow, 256, *one))
print(failure(module.absent, *one))
print(failure(module.scale, x, out, 1.0, 5, 1, 1, 1, 1, 1, 1, 300_000))
far = tensors.make(5, 2, 3)
print(failure(module.scale, far, far, 1.0, 5, *one))
none = tensors.make(5, 2, -1)
print(failure(module.scale, none, none, 1.0, 5, *one))
bad = graphffi.cpp.cuda_module("other", {"scale": types})
print(failure(bad.scale, x, out, 1.0, 5, *one))
print(failure(lambda: module.unknown))
"""
    expected = [
        "TypeError: scale: arguments: expected 11, got 3; after the kernel's own come grid x,",
        "TypeError: scale: argument 1: expected tensor, got ",
        "ValueError: scale: argument 1: expected a tensor on cuda, got one on device type 1",
        "ValueError: scale: argument 1: expected a tensor on cuda:0, got one on cuda:1",
        "TypeError: scale: argument 2: expected float32, got None",
        "ValueError: scale: argument 4: expected a size of the launch, got -1",
        "TypeError: narrow: argument 0: expected uint8, got 256",
        "RuntimeError: graphffi: a CUDA module: expected a kernel 'absent' in the image, found",
        "RuntimeError: graphffi: CUDA: cannot give a kernel that much shared memory: unknown",
        "RuntimeError: graphffi: CUDA: cannot find the device: unknown reason (101)",
        "ValueError: scale: expected a device below 64, got cuda:-1",
        "RuntimeError: graphffi: CUDA: cannot load a PTX or cubin image: device kernel image is",
        "AttributeError: ",
    ]
    lines = run(code).splitlines()
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start)


def test_module_is_imported_exported_and_described(run: Any, tmp_path: Path) -> None:
    code = """
tensors.import_module(module)
graphffi.cpp.export_library(tensors, sys.argv[3])
read_back = graphffi.load_module(sys.argv[3])
scale = read_back.get_function("scale", query_imports=True)
scale(x, out, 3.0, 5, 1, 1, 1, 1, 1, 1, 0)
print(values(out), read_back.imports[0].kind)
schema = read_back.imports[0].get_function_metadata("scale")["type_schema"]
print([p["type"] for p in schema["named_args"]["params"]])
"""
    assert run(code, str(tmp_path / "both.so")).splitlines() == [
        "[0.0, 3.0, 6.0, 9.0, 12.0] graphffi_cuda",
        str(["DLTensor*", "DLTensor*", "float", *["int"] * 8]),
    ]


@pytest.mark.parametrize("types", [["int"], ["tensor", ""], ["float16"]])
def test_bad_signature_is_refused(types: list[str]) -> None:
    with pytest.raises(
        ValueError, match=r"signature of a CUDA kernel: expected 'name\(type, .*got"
    ):
        graphffi.cpp.cuda_module("x", {"k": types})


CUBIN = struct.pack("<4s28sQQI6H", b"\x7fELF", b"", 64, 120, 0, 64, 56, 1, 64, 2, 0).ljust(248)
FATBIN = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 100).ljust(116)


@pytest.mark.parametrize("image", [CUBIN, FATBIN])
def test_an_image_that_was_cut_off_is_refused(image: bytes) -> None:
    assert graphffi.cpp.cuda_module(image, {"k": []})
    size = len(image)
    for part in (image[:-1], image[:16], image[:17]):
        with pytest.raises(ValueError, match=rf"an image of \d+ bytes, got {len(part)} bytes"):
            graphffi.cpp.cuda_module(part, {"k": []})
    with pytest.raises(ValueError, match=rf"an image of {size} bytes, got {size - 1} bytes"):
        graphffi.cpp.cuda_module(image[:-1], {"k": []})


def test_what_is_no_image_is_refused() -> None:
    for empty in ("", b""):
        with pytest.raises(ValueError, match="expected PTX, a cubin or a fatbin, got 0 bytes"):
            graphffi.cpp.cuda_module(empty, {"k": []})
    with pytest.raises(TypeError, match="cuda_module: image: expected str or bytes, got int 3"):
        graphffi.cpp.cuda_module(3, {"k": []})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cuda_module: kernels: expected types of parameters by"):
        graphffi.cpp.cuda_module("x", ["k"])  # type: ignore[arg-type]


def test_bad_saved_module_is_refused() -> None:
    load = graphffi.get_global_func("ffi.Module.load_from_bytes.graphffi_cuda")
    for saved in (b"", b"1234567", b"\xff" * 8, (9).to_bytes(8, "little") + b"k()"):
        with pytest.raises(ValueError, match=r"expected a saved CUDA module"):
            load(saved)


def test_missing_driver_is_named(run: Any) -> None:
    code = """
os.environ["GRAPHFFI_LIBCUDA"] = "/no/libcuda.so"
print(failure(module.scale, x, out, 1.0, 5, 1, 1, 1, 1, 1, 1, 0))
"""
    text = "RuntimeError: graphffi: expected CUDA's driver, got /no/libcuda.so: "
    assert run(code).startswith(text)
