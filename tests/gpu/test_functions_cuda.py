# SPDX-License-Identifier: Apache-2.0
"""Direct calls of functions with tensors on a GPU, of several libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphffi

torch = pytest.importorskip("torch")
pytest.importorskip("graphffi_torch")  # whose allocator serves functions of any arrays
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch")


def run(*command: str, **environment: str) -> str:
    """The output of a program, which must succeed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        env={**own, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def module(library: str) -> Any:
    return graphffi.load_module(library)


def test_calls_are_captured_into_a_cuda_graph(module: Any) -> None:
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    module.scale(x, out, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.scale_twice(x, out, 2.0)  # takes memory of the graph's pool
        module.scale(out, out, 3.0)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.testing.assert_close(out, torch.full_like(x, value * 12))


def test_a_returned_tensor_is_in_the_callers_framework(module: Any) -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    y = module.scaled(x, 2.0)
    assert type(y) is torch.Tensor
    torch.testing.assert_close(y, x * 2)


def test_errors_keep_their_kind(module: Any) -> None:
    x = torch.ones(3, device="cuda", dtype=torch.int32)
    with pytest.raises(TypeError, match="operand 'x': expected float32 or float16, got int32"):
        module.scale(x, x, 1.0)


def test_cupys_arrays(module: Any) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(6, dtype=cupy.float32)
    out = cupy.zeros_like(x)
    module.scale(x, out, 2.0)
    assert (out == x * 2).all()
    y = module.scaled(x, 3.0)
    assert type(y) is cupy.ndarray
    assert (y == x * 3).all()


def test_jaxs_arrays(module: Any) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a GPU for jax")
    x = jax.numpy.arange(6.0)
    y = module.scaled(x, 2.0)
    assert isinstance(y, jax.Array)
    assert y.devices() == x.devices()
    assert jax.numpy.array_equal(y, x * 2)
    late = module.late_filled(x, 3.0, 50_000_000)  # XLA's streams wait for no other
    assert jax.numpy.array_equal(late, jax.numpy.full(6, 3.0))


def test_what_reads_a_tensor_waits_for_the_stream_that_writes_it(module: Any) -> None:
    x, side = torch.zeros(6, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with graphffi.use_stream("cuda:0", side.cuda_stream):
        late = module.late_filled(graphffi.from_dlpack(x), 3.0, 50_000_000)
        y = torch.from_dlpack(late) * 2
    assert y.tolist() == [6.0] * 6


def test_a_graphs_result_comes_back_as_an_updated_operand(library: str) -> None:
    accumulate = graphffi.define_op(
        "gpu::accumulate",
        schema="(Tensor(a!) x, float factor) -> ()",
        kernel=f"{library}::scale",
        plan="x, x, factor",
        allow_cuda_graph=True,
    )
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, mode="reduce-overhead")
    def step(state: Any, x: Any) -> Any:
        accumulate(state, 2.0)
        return state + x

    state, expected = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        state, expected = step(state.clone(), x), expected * 2 + x
        torch.testing.assert_close(state, expected)
    for value in range(6):  # in the graph's own memory
        x = torch.full((64,), float(value), device="cuda")
        state, expected = step(state, x), expected * 2 + x
        torch.testing.assert_close(state, expected)


def test_the_recorder_notes_tensors_on_a_gpu(ops: SimpleNamespace, tmp_path: Any) -> None:
    x = torch.ones(3, 5, device="cuda")
    with graphffi.record(tmp_path, level=1):
        y = ops.scale(x, 3.0)
    torch.testing.assert_close(y, x * 3)
    listed = run(sys.executable, "-m", "graphffi", "replay", str(tmp_path), "--list")
    assert "float32[3, 5] on cuda:0" in listed


def test_checked_calls_leave_tensors_on_a_gpu_alone(library: str) -> None:
    code = f"""
import graphffi, torch
op = graphffi.define_op("gpu::checked", schema="(Tensor x, float factor) -> Tensor",
    kernel={library + "::scale"!r}, plan="x, out, factor", infer=lambda x, factor: graphffi.like(x))
x = torch.ones(64, device="cuda")
assert torch.equal(op(x, 3.0), x * 3)
assert torch.equal(torch.compile(lambda x: op(x, 3.0) + 1, fullgraph=True)(x), x * 3 + 1)
"""
    run(sys.executable, "-c", code, GRAPHFFI_DEBUG="1")


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="needs compute-sanitizer")
@pytest.mark.parametrize(
    "tests",
    [
        "test_torch_cuda.py::test_results",
        "test_functions_cuda.py::test_a_returned_tensor_is_in_the_callers_framework",
        "test_jax_cuda.py::test_command_buffers_are_replayed_with_other_arrays",
    ],
)
def test_no_access_is_out_of_bounds(tests: str) -> None:
    check = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9")
    pytest_command = (sys.executable, "-m", "pytest", "-q", str(Path(__file__).parent / tests))
    output = run(*check, *pytest_command, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    assert "ERROR SUMMARY: 0 errors" in output
