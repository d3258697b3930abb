# SPDX-License-Identifier: Apache-2.0
"""Libraries of programs on CUDA, made and run where there is no GPU: cuda_without_gpu.py makes
them, and in processes of their own, interpreted_gpu.py has Triton interpret their kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests import warm_python

HERE = Path(__file__).resolve().parent
TRITON = Path(sys.prefix) / "triton"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.__version__.startswith("2.13."), reason="uses private parts of torch 2.13"
    ),
    pytest.mark.skipif(not TRITON.is_dir(), reason="needs Triton: make .venv/triton.stamp"),
]

PRELUDE = """
import os, sys
from pathlib import Path
import interpreted_gpu
import torch, graphffi
from cuda_programs import PROGRAMS, scale_library
driver, tensors, folder = sys.argv[1:]
gpu = interpreted_gpu.Gpu(driver, tensors)
put, get = gpu.put, gpu.get
def load(name): return gpu.load(Path(folder, f"{name}.so"))
def same(results, expected):
    results = [results] if hasattr(results, "shape") else list(results)
    expected = [expected] if isinstance(expected, torch.Tensor) else expected
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(get(result), value, rtol=1e-5, atol=1e-6)
    assert not gpu.failures, gpu.failures[0]
def failure(call, *args):
    try: call(*args)
    except Exception as error: print(f"{type(error).__name__}: {error}")
def blocks(): return gpu.driver.fake_num_blocks()
def number(name): return gpu.number(name).value
torch.manual_seed(7)
torch.set_grad_enabled(False)
"""


MAKE = """
import sys
from pathlib import Path
import cuda_without_gpu as c
import graphffi_torch, torch
folder = sys.argv[1]
c.pretend()
for each in c.PROGRAMS:
    c.build(each, Path(folder))
class Middle(torch.nn.Module):
    def forward(self, x):
        return x.kthvalue(2, 0).values
def failure(program, **options):
    try: graphffi_torch.to_library(program, folder + "/refused.so", **options)
    except Exception as error: print(f"{type(error).__name__}: {error}")
program = c.on_cuda(torch.export.export(Middle(), (torch.randn(6, 4),)), {})
failure(program, isa="aarch64")
failure(program, options={"aot_inductor.emit_multi_arch_kernel": True})
failure(program, options={"use_static_cuda_launcher": False, "compile_threads": 1})
"""
#: What each process with the GPU imports; one that has imported it forks.
MODULES = ("torch.testing", "triton.language", "torch._inductor.runtime.triton_helpers")


def environment(**others: str) -> dict[str, str]:
    own = os.environ.get("PYTHONPATH", str(HERE))
    folders = os.pathsep.join([str(TRITON), str(HERE), own])
    return {**os.environ, "PYTHONPATH": folders, "GRAPHFFI_RUNTIME": "bundled", **others}


def run_on_gpu(code: str, *arguments: str, runtime: str = "bundled") -> list[str]:
    """Runs code in a process whose kernels Triton interprets, gives the lines that it prints."""
    env = environment(GRAPHFFI_RUNTIME=runtime, TRITON_INTERPRET="1")
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return warm_python.run(command, env=env, check=True, modules=MODULES).stdout.splitlines()


class Made(NamedTuple):
    """The driver, the library of tensors, the folder with the programs' libraries.

    And the lines of what could not be made.
    """

    driver: str
    tensors: str
    folder: str
    refused: list[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("library_cuda")
    driver = folder / "libcuda.so.1"
    source = HERE.parent / "core/fake_cuda_driver.c"
    subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", str(source), "-o", driver], check=True)
    command = [sys.executable, "-W", "ignore", "-c", MAKE, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = "import graphffi, interpreted_gpu as i; print(graphffi.cpp.build('gpu_tensors', "
    (tensors,) = run_on_gpu(code + "cpp_sources=i.TENSORS, functions=i.FUNCTIONS))")
    return Made(str(driver), tensors, str(folder), done.stdout.splitlines())


@pytest.fixture
def run(made: Made) -> Callable[..., list[str]]:
    """Runs code with the GPU and the libraries."""
    return lambda code, **options: run_on_gpu(PRELUDE + code, *made[:3], **options)


@pytest.mark.parametrize("runtime", ["bundled", "apache"])
def test_results_are_those_of_torch(run: Callable[..., list[str]], runtime: str) -> None:
    code = """
model, library = PROGRAMS["layers"].methods()["main"], load("layers")
for rows in (2, 20, 64):
    x = torch.randn(rows, 32)
    same(library.main(put(x)), model(x))
    into = put(torch.empty(rows, 16)), put(torch.empty(16))
    for _ in range(2):
        library.main_into(put(x), *into)
        same(into, model(x))

methods, library = PROGRAMS["attention"].methods(), load("attention")
for count in (1, 2):  # a buffer that one method updates, and another one reads
    x, cache = torch.randn(8, 16), torch.zeros(2, 8, 8)
    on_gpu = put(cache)
    same(library.prefill(put(x), on_gpu), methods["prefill"](x, cache))
    same(on_gpu, cache)
    token = torch.randn(1, 16)
    result = library.decode(put(token), on_gpu)
    same(result, methods["decode"](token, cache))
    assert get(result[1]).item() == count

model, library = PROGRAMS["branches"].methods()["main"], load("branches")
for x in (torch.rand(5, 7), -torch.rand(5, 7)):
    before = number("fake_waits")
    same(library.main(put(x)), model(x))
    assert number("fake_waits") > before  # for the element that decides

x = torch.randn(2, 3, 16, 16)
same(load("image").main(put(x)), PROGRAMS["image"].methods()["main"](x))

x = torch.randn(6, 4)
scaled = load("scaled").main
by, bias = (graphffi.from_dlpack(on_cpu.numpy()) for on_cpu in (torch.tensor(3.0), x[0]))
before = number("fake_waits")
same(scaled(put(x), by, bias), x * 3 + x[0])
assert number("fake_waits") > before  # the caller may write to what was copied from the CPU
failure(scaled, put(x), put(torch.tensor(3.0)), bias)
same(load("only_calls").main(put(x)), (x * 3, x))
library = load("calls")
gpu.number("fake_expected_stream", interpreted_gpu.ctypes.c_void_p).value = 0x1234
with graphffi.use_stream("cuda:0", 0x1234):
    result = library.main(put(x))
same(result, x * 6 + 1)
last_stream = graphffi.load_module(scale_library()).last_stream()
print(hex(last_stream), number("fake_on_other_streams"), gpu.driver.fake_num_contexts())
"""
    assert run(code, runtime=runtime) == [
        "ValueError: main: operand 'by': expected float32[] on cpu, got float32[] on cuda:0",
        "0x1234 0 0",
    ]


def test_memory_is_the_hosts_and_is_given_back(run: Callable[..., list[str]]) -> None:
    code = """
library = load("layers")
x = put(torch.randn(20, 32))
library.main(x)
before = blocks()
result = library.main(x)
assert blocks() > before
del result
print(blocks() - before, gpu.tensors.allocated())
gpu.tensors.use_allocator(True)
result = library.main(x)
print(gpu.tensors.allocated() > 2)
del result
print(blocks() - before)
into = put(torch.empty(20, 16)), put(torch.empty(16))
for _ in range(3):
    before = gpu.tensors.allocated()
    library.main_into(x, *into)
print(gpu.tensors.allocated() - before)  # results are made in place: the hidden layer is left

strided = gpu.tensors.strided(put(torch.arange(128.0)), [2, 32], [64, 2])
gpu.tensors.use_allocator(False)
model = PROGRAMS["layers"].methods()["main"]
same(library.main(strided), model(torch.arange(0.0, 128.0, 2).reshape(2, 32)))
twice = gpu.tensors.strided(put(torch.arange(32.0)), [20, 32], [0, 1])
same(library.main(twice), model(torch.arange(32.0).expand(20, 32)))
"""
    assert run(code) == ["0 0", "True", "0", "1"]


def test_devices_have_models_of_their_own(run: Callable[..., list[str]]) -> None:
    code = """
library, model = load("layers"), PROGRAMS["layers"].methods()["main"]
x = torch.randn(20, 32)
for device in (0, 1, 0, 1):
    loads = number("fake_loads")
    y, _ = library.main(put(x, device))
    same(y, model(x)[0])
    print(y.device, number("fake_loads") - loads)
attention = load("attention")
failure(attention.decode, put(torch.zeros(1, 16), 1), put(torch.zeros(2, 8, 8)))
failure(library.main, put(x, 2))
"""
    lines = run(code)
    assert lines[:4] == ["cuda:0 4", "cuda:1 4", "cuda:0 0", "cuda:1 0"]
    assert lines[4] == (
        "ValueError: decode: operand 'cache': expected float32[2, 8, 8] on cuda:1, "
        "got float32[2, 8, 8] on cuda:0"
    )
    assert lines[5].startswith("RuntimeError: graphffi: CUDA: cannot find the device")


def test_wrong_calls_are_refused(run: Callable[..., list[str]]) -> None:
    code = """
library, attention = load("layers"), load("attention")
x = torch.randn(20, 32)
failure(library.main, graphffi.from_dlpack(x.numpy()))
failure(library.main, put(x[:, :31]))
failure(library.main, put(x.double()))
failure(library.main_into, put(x), put(torch.empty(20, 16)), graphffi.from_dlpack(x[0].numpy()))
into = put(torch.empty(20, 16))
failure(library.main_into, put(x), into, put(torch.empty(16), 1))
failure(library.main_into, put(x), into, gpu.tensors.strided(into, [16], [1]))
failure(library.main_within, None, put(x), into, put(torch.empty(16)))
cache = gpu.tensors.strided(put(torch.zeros(128)), [2, 8, 8], [8, 16, 1])
failure(attention.prefill, put(torch.zeros(8, 16)), cache)
print(blocks(), gpu.driver.fake_num_contexts())
"""
    assert run(code) == [
        "ValueError: main: operand 'x': expected float32[rows (2 to 64), 32] on cuda, got "
        "float32[20, 32] on cpu",
        "ValueError: main: operand 'x': expected float32[rows=20, 32] on cuda:0, got "
        "float32[20, 31] on cuda:0",
        "TypeError: main: operand 'x': expected float32[rows (2 to 64), 32] on cuda, got "
        "float64[20, 32] on cuda:0",
        "ValueError: main_into: result 1: expected a contiguous tensor on cuda:0, got float32[32] "
        "on cpu",
        "ValueError: main_into: result 1: expected a contiguous tensor on cuda:0, got float32[16] "
        "on cuda:1",
        "ValueError: main_into: result 1: expected memory of its own, got memory shared with "
        "result 0",
        "NotImplementedError: main_within: expected a program on cpu, got one on cuda; call "
        "main_into",
        "ValueError: prefill: operand 'cache': expected a contiguous tensor, since the model "
        "updates it, got one with other strides; pass a contiguous one",
        "2 0",  # nothing ran: what there is are `into` and `cache`
    ]


def test_whatever_fails_in_the_driver_is_an_error(run: Callable[..., list[str]]) -> None:
    code = """
failing = gpu.number("fake_calls_until_failure")
def fails(call, base):
    for count in range(100):
        failing.value = count
        try:
            call()
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        else:
            failing.value = -1
            return count
        failing.value = -1
        assert blocks() - base() <= 1, (count, blocks(), base())  # weights, once they are there
        assert gpu.driver.fake_num_contexts() == 0
x, x1, cache = put(torch.randn(20, 32)), put(torch.randn(1, 16)), put(torch.zeros(2, 8, 8))
small = put(torch.rand(5, 7))
start = blocks()
layers, attention, branches = load("layers"), load("attention"), load("branches")
print(fails(lambda: layers.main(x), lambda: start) > 5)
start = blocks()
print(fails(lambda: attention.decode(x1, cache), lambda: start) > 5)
start = blocks()
print(fails(lambda: branches.main(small), lambda: start) > 3)
same(layers.main(x), PROGRAMS["layers"].methods()["main"](get(x)))
"""
    assert run(code) == ["True"] * 3


def test_threads_load_each_kernel_once(run: Callable[..., list[str]]) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
library, model = load("layers"), PROGRAMS["layers"].methods()["main"]
gpu.tensors.use_allocator(False)
inputs = [torch.randn(2 + i, 32) for i in range(16)]
with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(library.main, map(put, inputs)))
for x, result in zip(inputs, results, strict=True):
    same(result, model(x))
print(number("fake_loads"))
"""
    assert run(code) == ["4"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            "gpu.number('fake_capability').value = 80",
            "RuntimeError: graphffi: expected a GPU of compute capability 9.0, which the library "
            "was made for, got one of 8.0; make the library on such a GPU",
        ),
        (  # its kernels are compiled for sm_90a
            "gpu.number('fake_capability').value = 91",
            "RuntimeError: graphffi: expected a GPU of compute capability 9.0, which the library "
            "was made for, got one of 9.1; make the library on such a GPU",
        ),
        (
            "os.environ['GRAPHFFI_LIBCUDA'] = '/no/libcuda.so'",
            "RuntimeError: graphffi: expected CUDA's driver, got /no/libcuda.so: cannot open",
        ),
    ],
)
def test_machines_without_such_a_gpu_are_named(
    run: Callable[..., list[str]], before: str, expected: str
) -> None:
    code = f"""
x = put(torch.randn(20, 32))
library = load("layers")
{before}
failure(library.main, x)
failure(library.main, x)
"""
    first, second = run(code)
    assert first.startswith(expected)
    assert second == first


def test_a_library_needs_nothing_of_cuda_to_be_loaded(made: Made) -> None:
    library = Path(made.folder, "layers.so")
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    assert "NEEDED" in needed
    assert not {"libcuda", "libcudart", "libtorch"} & {
        line.split("[")[1].split(".so")[0] for line in needed.splitlines() if "NEEDED" in line
    }
    assert "gpu: sm_90" in subprocess.run(
        [sys.executable, "-m", "graphffi", "inspect", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("  ", " ")


def test_what_cannot_be_made_is_refused(made: Made) -> None:
    expected = [
        "ValueError: graphffi_torch: to_library: isa: expected instructions of x86_64 for a "
        "program on cuda, got 'aarch64'",
        "ValueError: graphffi_torch: to_library: options: expected no aot_inductor.emit_multi_arch",
        "NotImplementedError: graphffi_torch: to_library: expected operators with code of their "
        "own, got aten.kthvalue",
    ]
    assert len(made.refused) == len(expected), made.refused
    for line, start in zip(made.refused, expected, strict=True):
        assert line.startswith(start)
