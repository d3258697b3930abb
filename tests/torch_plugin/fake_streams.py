# SPDX-License-Identifier: Apache-2.0
"""A program that calls ops on a backend with fake streams: python fake_streams.py BACKEND."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import types
from typing import Any

import torch

import graphffi
from graphffi import Tensor

KERNELS = r"""
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

int64_t Stream(int32_t device) {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetStream(kDLExtDev, device));
}
/// Calls with the device type, the streams of both devices and the plan's.
void watch(ffi::Function see, void* stream, ffi::TensorView) {
  see(Stream(0), Stream(1), reinterpret_cast<int64_t>(stream));
}
"""
DEVICE = "privateuseone"
backend = ctypes.CDLL(sys.argv[1])
torch._register_device_module(
    DEVICE, types.SimpleNamespace(_lazy_init=lambda: None, is_available=lambda: True)
)
kernels = graphffi.cpp.load_inline("fake_streams", cpp_sources=KERNELS, functions=["watch"])
local = threading.local()


def see(*streams: int) -> None:
    """What kernels see goes into a list of the thread, after what the test wants to happen."""
    local.seen.append((*streams, backend.fake_current_device()))
    then = local.then.pop() if local.then else None
    if then is not None:
        then()


graphffi.register_global_func("fake.see", see)
graphffi.register_global_func(
    "fake.watch", lambda *args: kernels.watch(graphffi.get_global_func("fake.see"), *args)
)


@graphffi.op("fake::one", kernel="fake.watch", plan="stream, x", mutates=("x",))
def one(x: Tensor) -> None:
    """Sees the env."""


@graphffi.op("fake::two", kernel="fake.watch", plan="stream, x", mutates=("x",))
def two(x: Tensor, y: Tensor | None, zs: list[Tensor]) -> None:
    """Sees the env of several operands."""


@graphffi.op("fake::like", kernel="fake.watch", plan="stream, out")
def like(x: Tensor) -> Tensor:
    """Sees the env; the result is allocated."""
    return graphffi.like(x)


def tensor(device: int) -> torch.Tensor:
    return torch.empty(3, device=f"{DEVICE}:{device}")


def handle(device: int, stream: int) -> int:
    return 0x1000 * (device + 1) + stream if stream else 0


def seen_by(call: Any, *then: Any) -> list[tuple[int, ...]]:
    """What the kernels of the call see: streams of the devices, the plan's, the current device."""
    local.seen, local.then = [], list(then)
    call()
    return local.seen


def env_streams() -> list[tuple[int, ...]]:
    """The env that a kernel sees which is called without a device."""
    function = kernels.watch
    return seen_by(lambda: function(see, None, torch.ones(1)))


def test_current_streams() -> None:
    for stream in (5, 6, 0):
        backend.fake_set_stream(1, stream)
        got = handle(1, stream)
        assert seen_by(lambda: one(tensor(1))) == [(0, got, got, 1)]
        assert seen_by(lambda: like(tensor(1))) == [(0, got, got, 1)]
    assert seen_by(lambda: one(torch.ones(3))) == [(0, 0, 0, 0)]
    backend.fake_set_stream(1, 5)
    got = handle(1, 5)
    assert seen_by(lambda: kernels.watch(see, None, tensor(1))) == [(0, got, 0, 0)]
    call = torch.ops.tvm_ffi.call
    assert seen_by(lambda: call("fake.watch", [tensor(1)], [], "stream, i0")) == [(0, got, got, 1)]
    assert env_streams() == [(0, 0, 0, 0)]


def test_two_devices() -> None:
    backend.fake_set_stream(0, 3)
    backend.fake_set_stream(1, 4)
    both = (handle(0, 3), handle(1, 4))
    first, second = tensor(0), tensor(1)
    assert seen_by(lambda: two(first, second, [])) == [(*both, both[1], 1)]
    assert seen_by(lambda: two(first, None, [second])) == [(*both, both[1], 1)]
    assert seen_by(lambda: two(torch.ones(1), None, [first, second, first])) == [
        (*both, both[0], 0)
    ]
    assert env_streams() == [(0, 0, 0, 0)]


def test_nested_calls_and_failures() -> None:
    backend.fake_set_stream(0, 1)
    backend.fake_set_stream(1, 2)
    zero, one_ = handle(0, 1), handle(1, 2)

    def inner() -> None:
        backend.fake_set_stream(0, 7)
        one(tensor(0))
        backend.fake_set_stream(0, 1)
        one(tensor(1))

    got = seen_by(lambda: (one(tensor(0)), one(tensor(0))), inner)
    # Inside, the outer call's stream of its device is still the env's where nothing else is set.
    assert got == [
        (zero, 0, zero, 0),
        (handle(0, 7), 0, handle(0, 7), 0),
        (zero, one_, one_, 1),
        (zero, 0, zero, 0),
    ]

    def fail() -> None:
        raise ValueError("in the kernel")

    with contextlib.suppress(ValueError):
        seen_by(lambda: one(tensor(1)), fail)
    assert len(local.seen) == 1
    assert env_streams() == [(0, 0, 0, 0)]
    assert backend.fake_current_device() == 0


def test_streams_that_the_caller_set() -> None:
    backend.fake_set_stream(0, 0)
    with graphffi.use_stream(graphffi.Device("ext_dev:0"), 99):
        assert env_streams() == [(99, 0, 0, 0)]
        # Torch's null stream is a stream like any other, and 99 is back afterwards.
        assert seen_by(lambda: one(tensor(0))) == [(0, 0, 0, 0)]
        assert env_streams() == [(99, 0, 0, 0)]


def test_threads() -> None:
    failures: list[Any] = []

    def work(number: int) -> None:
        device = number % 2
        backend.fake_set_stream(device, number + 1)
        wanted = handle(device, number + 1)
        for _ in range(200):
            got = seen_by(lambda: one(tensor(device)))
            if got[0][device] != wanted or got[0][1 - device] != 0 or got[0][2] != wanted:
                failures.append((number, got))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print(name, flush=True)
