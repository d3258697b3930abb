# SPDX-License-Identifier: Apache-2.0
"""Torch on a GPU: streams, memory, graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import graphffi

torch = pytest.importorskip("torch")
graphffi_torch = pytest.importorskip("graphffi_torch")
if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch")


@pytest.fixture(params=["eager", "compiled"])
def wrap(request: pytest.FixtureRequest) -> Callable[..., Any]:
    torch._dynamo.reset()
    if request.param == "eager":
        return lambda function: function
    return lambda function: torch.compile(function, fullgraph=True, dynamic=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 1000)])
def test_results(ops: SimpleNamespace, wrap: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, device="cuda").to(dtype)
    torch.testing.assert_close(wrap(lambda x: ops.scale(x, 3.0) + 1)(x), x * 3 + 1)
    torch.testing.assert_close(wrap(ops.scale_twice)(x), x * 4)


def test_wrong_arguments(ops: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="operand 'x': expected a tensor on cuda, got cpu"):
        ops.scale(torch.ones(3))
    with pytest.raises(TypeError, match="expected float32 or float16, got int32"):
        ops.scale(torch.ones(3, device="cuda", dtype=torch.int32))


def test_the_env_stream_is_the_current_one_and_is_restored(library: str) -> None:
    stream_of = graphffi.load_module(library).stream
    x = torch.ones(3, device="cuda")
    default = torch.cuda.current_stream().cuda_stream
    assert stream_of(x) == default
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert stream_of(x) == side.cuda_stream
        with torch.cuda.stream(None):
            assert stream_of(x) == side.cuda_stream
    assert stream_of(x) == default


def test_calls_are_ordered_by_their_stream_and_by_no_other(ops: SimpleNamespace, wrap: Any) -> None:
    x = torch.zeros(256, device="cuda")
    call = wrap(lambda x: ops.scale(ops.late_fill(x, 3.0), 2.0))
    call(x)
    ops.scale(x + 1, 2.0)  # kernels are loaded when they are first launched, which waits for others
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = call(x)
        late = torch.cuda.Event()
        late.record()
    # A stream that was not waited for is still busy: the call did not use the default stream.
    z = ops.scale(x + 1, 2.0)
    torch.cuda.current_stream().synchronize()
    assert not late.query()
    torch.testing.assert_close(z, torch.full_like(x, 2.0))
    side.synchronize()
    torch.testing.assert_close(y, torch.full_like(x, 6.0))


def test_threads_race_on_streams_of_their_own(ops: SimpleNamespace, library: str) -> None:
    stream_of = graphffi.load_module(library).stream

    def work(value: float) -> tuple[bool, float]:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.zeros(256, device="cuda")
            for _ in range(4):
                x = ops.scale_twice(ops.late_fill(x, value, cycles=1_000_000), 2.0)
            return stream_of(x) == side.cuda_stream, x[0].item()

    values = [float(v) for v in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, values)) == [(True, 4 * v) for v in values]


def test_the_stream_is_restored_after_an_error(ops: SimpleNamespace, library: str) -> None:
    stream_of = graphffi.load_module(library).stream
    x = torch.ones(3, device="cuda")
    before = stream_of(x)
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(TypeError):
        ops.scale(x.int())
    assert stream_of(x) == before


def test_scratch_memory_comes_from_torchs_allocator(ops: SimpleNamespace) -> None:
    x = torch.ones(1 << 20, device="cuda")
    ops.scale_twice(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()
    y = ops.scale_twice(x)
    after = torch.cuda.memory_stats()
    count = "allocation.all.allocated"
    assert after[count] - before[count] == 2  # the result and the scratch memory
    assert torch.cuda.memory_allocated() == before["allocated_bytes.all.current"] + y.nbytes


def test_calls_are_captured_into_a_cuda_graph(ops: SimpleNamespace) -> None:
    x = torch.ones(64, device="cuda")
    ops.scale_twice(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ops.scale(ops.scale_twice(x), 0.5)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.testing.assert_close(y, torch.full_like(x, value * 2))


@pytest.mark.parametrize("name", ["scale", "scale_twice"])
def test_reduce_overhead_replays_a_graph(ops: SimpleNamespace, name: str) -> None:
    torch._dynamo.reset()
    skips = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    op, factor = getattr(ops, name), 2.0 if name == "scale" else 4.0
    step = torch.compile(lambda x: op(x, 2.0) + 1, fullgraph=True, mode="reduce-overhead")
    for value in range(5):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(step(x), x * factor + 1)
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == skips


def test_recorded_parts_and_calls_between_them(ops: SimpleNamespace) -> None:
    torch._dynamo.reset()

    def run(x: Any) -> Any:
        x = ops.scale_twice(ops.scale_twice(ops.scale(x, 2.0)))
        return ops.scale_through(ops.late_fill(x, 3.0, cycles=1000) + x, 0.5)

    step = torch.compile(run, fullgraph=True, mode="reduce-overhead")
    for value in range(5):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(step(x), (x * 32 + 3) / 4)


@pytest.mark.parametrize("allowed", [False, True])
def test_calls_that_must_not_be_recorded_are_made_in_every_run(allowed: bool) -> None:
    calls = []

    def kernel(x: Any, out: Any) -> None:
        calls.append("called")
        torch.from_dlpack(out).copy_(torch.from_dlpack(x))

    op = graphffi.define_op(
        f"gpu::counted_{int(allowed)}",
        schema="(Tensor x) -> Tensor",
        kernel=kernel,
        infer=graphffi.like,
        allow_cuda_graph=allowed,
    )
    torch._dynamo.reset()
    step = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True, mode="reduce-overhead")
    for value in range(8):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(step(x), x * 2 + 1)
    assert (len(calls) == 8) != allowed


def test_a_kernels_error_in_a_package_has_its_text(library: str, tmp_path: Path) -> None:
    op = graphffi.define_op(
        "gpu::refuse",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::refuse",
        infer=graphffi.like,
    )

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x + 1)

    x = torch.ones(3, device="cuda")
    path = graphffi_torch.package(torch.export.export(Model(), (x,)), tmp_path / "model.pt2")
    with pytest.raises(IndexError, match="gpu: refused"):
        graphffi_torch.load_package(path, trust=True)(x)
    model = torch._inductor.aoti_load_package(path)
    with pytest.raises(IndexError, match="gpu: refused"), graphffi_torch.errors():
        model(x)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_another_device_than_the_current_one(ops: SimpleNamespace, wrap: Any) -> None:
    x = torch.ones(64, device="cuda:1")
    assert torch.cuda.current_device() == 0
    y = wrap(ops.scale_twice)(x)
    assert y.device == x.device
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(y, x * 4)
