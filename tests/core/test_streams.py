# SPDX-License-Identifier: Apache-2.0
"""The env's stream. Streams are addresses here: no accelerator is needed to pass them on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import graphffi

CUDA = 2


def test_stream_is_set_for_a_block_and_restored(kernels: Any) -> None:
    assert kernels.stream(CUDA, 0) == 0
    with graphffi.use_stream("cuda:0", 0x1230):
        assert kernels.stream(CUDA, 0) == 0x1230
        assert kernels.stream(CUDA, 1) == 0
        with graphffi.use_stream(graphffi.Device("cuda:0"), 0):
            assert kernels.stream(CUDA, 0) == 0
        assert kernels.stream(CUDA, 0) == 0x1230
    assert kernels.stream(CUDA, 0) == 0


def test_stream_is_restored_after_an_error(kernels: Any) -> None:
    with pytest.raises(ValueError, match=r"text"), graphffi.use_stream("cuda:0", 1):
        kernels["raise"]("ValueError", "text")
    assert kernels.stream(CUDA, 0) == 0


def test_stream_is_the_threads_own(kernels: Any) -> None:
    seen = []
    with graphffi.use_stream("cuda:0", 0x1230):
        thread = threading.Thread(target=lambda: seen.append(kernels.stream(CUDA, 0)))
        thread.start()
        thread.join()
    assert seen == [0]


def test_cpu_has_no_streams() -> None:
    with (
        pytest.raises(ValueError, match=r"use_stream: expected an accelerator, got cpu"),
        graphffi.use_stream("cpu", 1),
    ):
        pass


def test_stream_that_a_kernel_changed_is_restored(kernels: Any) -> None:
    with graphffi.use_stream("cuda:0", 0x1230):
        kernels.change_stream()
    assert kernels.stream(CUDA, 0) == 0


def test_kernel_keeps_the_callers_env_without_tensors(kernels: Any) -> None:
    with graphffi.use_stream("cuda:0", 0x1230):
        assert kernels.call(lambda _: kernels.stream(CUDA, 0), None) == 0x1230


def test_scope_is_left_on_its_own_thread() -> None:
    from graphffi import _core

    scope = _core.StreamScope("cuda:0", 1)
    with pytest.raises(RuntimeError, match=r"expected exit on the thread that entered it"):
        scope.exit()
    scope.enter()
    failures: list[str] = []

    def leave() -> None:
        try:
            scope.exit()
        except RuntimeError as failure:
            failures.append(str(failure))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert len(failures) == 1
    with pytest.raises(RuntimeError, match=r"already entered"):
        scope.enter()
    scope.exit()


def test_scope_that_another_thread_frees_leaves_its_stream_alone(kernels: Any) -> None:
    from graphffi import _core

    scopes = [_core.StreamScope("cuda:0", 1)]
    thread = threading.Thread(target=scopes[0].enter)
    thread.start()
    thread.join()
    with graphffi.use_stream("cuda:0", 0x1230):
        scopes.clear()
        assert kernels.stream(CUDA, 0) == 0x1230
