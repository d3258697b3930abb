# SPDX-License-Identifier: Apache-2.0
"""Global functions that are replaced or removed while eager and compiled calls use them."""

from __future__ import annotations

import gc
import tempfile
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch

X = torch.arange(3.0)
# JAX raises what is not found as the last.
FAILURES = (KeyError, RuntimeError, ValueError)

KERNELS = """
#include <tvm/ffi/tvm_ffi.h>

void add(tvm::ffi::TensorView x, tvm::ffi::TensorView out, float number) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(out.data_ptr())[i] = static_cast<const float*>(x.data_ptr())[i] + number;
  }
}
void add_one(tvm::ffi::TensorView x, tvm::ffi::TensorView out) { add(x, out, 1); }
void add_two(tvm::ffi::TensorView x, tvm::ffi::TensorView out) { add(x, out, 2); }
"""


@pytest.fixture(scope="module")
def adders() -> Any:
    """Kernels that need no GIL."""
    names = ["add_one", "add_two"]
    return graphffi.cpp.load_inline("replaced_functions", cpp_sources=KERNELS, functions=names)


class Adder:
    """A kernel that adds a number, and can be watched."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __call__(self, x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) + self.number


def register(name: str, number: float) -> weakref.ref[Adder]:
    adder = Adder(number)
    graphffi.register_global_func(name, adder, override=True)
    return weakref.ref(adder)


def raw(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.ops.tvm_ffi.call(name, [x], [out], "i0, o0")
        return out

    return call


def helper(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: graphffi.call_tvm_ffi(name, x, out=graphffi.like(x))


def defined(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return graphffi.define_op(
        name.replace(".", "::"), schema="(Tensor x) -> Tensor", kernel=name, infer=graphffi.like
    )


def package(call: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    class Program(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return call(x)

    exported = torch.export.export(Program(), (X,))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/program.pt2"
        graphffi_torch.package(exported, path)
        return graphffi_torch.load_package(path, trust=True)


def in_graph(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(call, fullgraph=True, **options)


def jitted(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    call = jax.jit(helper(name))
    return lambda x: torch.from_numpy(np.array(call(x.numpy())))


WAYS: dict[str, Callable[[str], Callable[[torch.Tensor], Any]]] = {
    "eager": raw,
    "helper": helper,
    "op": defined,
    "graph": lambda name: in_graph(raw(name)),
    "helper in a graph": lambda name: in_graph(helper(name)),
    "graph in C++": lambda name: in_graph(raw(name), options={"cpp_wrapper": True}),
    "package": lambda name: package(raw(name)),
    "jitted": jitted,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_is_replaced_takes_effect_at_the_next_call(way: str) -> None:
    name = f"mytest.replaced_{list(WAYS).index(way)}"
    register(name, 0)
    call = WAYS[way](name)
    for number in (1, 2, 3):
        register(name, number)
        torch.testing.assert_close(call(X), X + number)
    graphffi.remove_global_func(name)
    with pytest.raises(FAILURES, match=f"'{name}': expected a registered function"):
        call(X)
    register(name, 4)
    torch.testing.assert_close(call(X), X + 4)


@pytest.mark.parametrize("way", ["eager", "graph", "jitted"])
def test_replaced_functions_are_released(way: str) -> None:
    name = f"mytest.released_{way}"
    register(name, 0)
    call = WAYS[way](name)
    call(X)
    replaced = []
    for number in range(20):
        replaced.append(register(name, number))
        torch.testing.assert_close(call(X), X + number)
    gc.collect()
    assert [adder for adder in replaced if adder() is not None] == replaced[-1:]


@pytest.mark.parametrize("way", ["eager", "graph"])
def test_a_function_lives_while_a_call_of_it_runs(way: str) -> None:
    name = f"mytest.under_way_{way}"
    entered, go_on = threading.Event(), threading.Event()

    def wait(x: Any, out: Any) -> None:
        entered.set()
        assert go_on.wait(60)
        torch.from_dlpack(out).fill_(7)

    register(name, 0)
    call = WAYS[way](name)
    call(X)
    register(name, 1)
    call(X)
    graphffi.register_global_func(name, wait, override=True)
    is_dead = weakref.ref(wait)
    del wait
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(call(X)))
    thread.start()
    assert entered.wait(60)
    for number in (2, 3):
        register(name, number)
        torch.testing.assert_close(call(X), X + number)
    assert is_dead() is not None
    go_on.set()
    thread.join()
    assert results[0].tolist() == [7.0] * 3
    register(name, 4)
    call(X)
    gc.collect()
    assert is_dead() is None


def change(name: str, turns: list[Any], seed: int) -> None:
    """Replaces, removes and adds functions, one of `turns` at a time."""
    for i in range(200):
        graphffi.register_global_func(name, turns[i % 2], override=True)
        other = f"{name}.other_{seed}_{i}"
        graphffi.register_global_func(other, turns[0])
        graphffi.remove_global_func(other)
        if i % 10 == 9 and seed == 0:
            graphffi.remove_global_func(name)


@pytest.mark.parametrize("way", ["eager", "helper", "op", "graph", "package", "jitted"])
def test_threads_call_while_others_change_the_registry(adders: Any, way: str) -> None:
    name = f"mytest.hostile_{way}"
    turns = [adders.add_one, adders.add_two]
    graphffi.register_global_func(name, turns[0], override=True)
    call = WAYS[way](name)
    call(X)
    done = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        while not done.is_set():
            try:
                difference = (call(X) - X).tolist()
            except FAILURES as error:
                if name not in str(error):
                    wrong.append(error)
                continue
            if difference not in ([1.0] * 3, [2.0] * 3):
                wrong.append(difference)

    workers = [threading.Thread(target=work) for _ in range(4)]
    changers = [threading.Thread(target=change, args=(name, turns, seed)) for seed in range(2)]
    for thread in workers + changers:
        thread.start()
    for thread in changers:
        thread.join()
    done.set()
    for thread in workers:
        thread.join()
    assert not wrong
