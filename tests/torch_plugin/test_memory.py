# SPDX-License-Identifier: Apache-2.0
"""Lifetimes: nothing leaks, kept tensors live, kernels allocate with torch."""

from __future__ import annotations

import ctypes
import resource
import threading
from typing import Any

import numpy as np
import pytest
import torch

import graphffi


def test_ten_thousand_calls_keep_memory_flat(ops: Any) -> None:
    x = torch.ones(1024)

    def calls(count: int) -> None:
        for _ in range(count):
            ops.add(x)
            ops.increment(x)
            with pytest.raises(ValueError, match="luck"):
                ops.fail(x, "ValueError")

    calls(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(3500)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192  # KiB


def test_a_tensor_that_a_kernel_keeps_outlives_the_caller(ops: Any, kernels: Any) -> None:
    ops.keep(torch.full((1000,), 7.0))
    torch.full((1000,), 3.0)  # would take the memory if it were free
    kept = torch.from_dlpack(kernels.kept_tensor())
    assert (kept == 7).all()


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end:UserWarning")
def test_kernels_allocate_with_torch(ops: Any, kernels: Any) -> None:
    x = torch.ones(5)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        y = ops.allocate(x)
    torch.testing.assert_close(y, x + 1)
    allocations = [event for event in profile.events() if event.name == "aten::empty"]
    assert len(allocations) == 2  # the result and the kernel's own
    assert torch.from_dlpack(kernels.kept_tensor()).tolist() == [2, 2, 2, 2, 2]


def test_a_threads_own_allocator_gives_way_to_torchs_and_comes_back() -> None:
    runtime = ctypes.CDLL(graphffi.runtime_info().path)
    get = runtime.TVMFFIEnvGetDLPackManagedTensorAllocator
    get.restype = ctypes.c_void_p
    seen: list[int | None] = []
    graphffi.register_global_func("memory_test.allocator", lambda x, out: seen.append(get()))
    op = graphffi.define_op(
        "memory_test::allocator",
        schema="(Tensor x, Tensor(a!) out) -> ()",
        kernel="memory_test.allocator",
    )

    def work() -> None:
        for mine in (None, 4096, None):
            replace = runtime.TVMFFIEnvSetDLPackManagedTensorAllocator
            replace(ctypes.c_void_p(mine), 0, None)
            before = get()
            op(torch.ones(3), torch.ones(3))
            torch.ops.memory_test.allocator(torch.ones(3), torch.ones(3))
            after = get()
            replace(None, 0, None)
            assert before == after == (mine or get())

    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failures == []
    assert len(seen) == 6
    assert not {None, 4096} & set(seen)
    assert seen[0] == seen[1] == seen[4] == seen[5]  # the process's, which is as good
    assert seen[2] == seen[3]


def test_threads_do_not_disturb_each_other(ops: Any) -> None:
    failures: list[str] = []

    def work(i: int) -> None:
        x = torch.full((16,), float(i))
        for _ in range(300):
            if not torch.equal(ops.add(x, 2.0), x + 2):
                failures.append("wrong result")
            try:
                ops.fail(x, "ValueError" if i % 2 else "TypeError")
            except (ValueError, TypeError) as error:
                if isinstance(error, ValueError) != bool(i % 2):
                    failures.append("wrong error")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_workspace_in_the_plan_is_allocated() -> None:
    def scaled(x: Any, workspace: Any, out: Any) -> None:
        view = np.from_dlpack(workspace)
        view[...] = 7
        np.from_dlpack(out)[...] = np.from_dlpack(x) * view.size

    graphffi.register_global_func("torchtest.workspace", scaled, override=True)
    options: Any = {"schema": "(Tensor x) -> Tensor", "kernel": "torchtest.workspace"}
    plan = "x, workspace, out"
    op = graphffi.define_op(
        "torchtest::workspace", **options, plan=plan, infer=graphffi.like, workspace=64
    )
    x = torch.ones(3)
    for call in (op, torch.compile(op, fullgraph=True), torch.ops.torchtest.workspace):
        assert torch.equal(call(x), 64 * x)
