# SPDX-License-Identifier: Apache-2.0
"""Global functions that are replaced or removed while compiled programs use them."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi

X = np.arange(3, dtype="float32")
# JAX raises what is not found as the second.
FAILURES = (jax.errors.JaxRuntimeError, ValueError)


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


def compiled(name: str) -> Any:
    return jax.jit(lambda x: graphffi.call_tvm_ffi(name, x, out=graphffi.like(x)))


def test_a_removed_function_is_an_error_until_there_is_another() -> None:
    register("jaxtest.removed", 0)
    call = compiled("jaxtest.removed")
    np.testing.assert_array_equal(call(X), X)
    graphffi.remove_global_func("jaxtest.removed")
    with pytest.raises(FAILURES, match=r"'jaxtest.removed': expected a registered function"):
        call(X).block_until_ready()
    register("jaxtest.removed", 1)
    np.testing.assert_array_equal(call(X), X + 1)


def test_replaced_functions_are_released() -> None:
    register("jaxtest.released", 0)
    call = compiled("jaxtest.released")
    call(X).block_until_ready()
    replaced = []
    for number in range(20):
        replaced.append(register("jaxtest.released", number))
        np.testing.assert_array_equal(call(X), X + number)
    gc.collect()
    assert [adder for adder in replaced if adder() is not None] == replaced[-1:]


def change(name: str, turns: list[Any], seed: int) -> None:
    """Replaces, removes and adds functions, one of `turns` at a time."""
    for i in range(200):
        graphffi.register_global_func(name, turns[i % 2], override=True)
        other = f"{name}.other_{seed}_{i}"
        graphffi.register_global_func(other, turns[0])
        graphffi.remove_global_func(other)
        if i % 10 == 9 and seed == 0:
            graphffi.remove_global_func(name)


def test_threads_call_while_others_change_the_registry(library: str) -> None:
    module = graphffi.load_module(library)
    name = "jaxtest.hostile"
    graphffi.register_global_func(name, module.add_one, override=True)
    call = compiled(name)
    x = jnp.asarray(X)
    call(x).block_until_ready()
    done = threading.Event()
    wrong: list[Any] = []

    def work() -> None:
        while not done.is_set():
            try:
                difference = (np.asarray(call(x)) - X).tolist()
            except FAILURES as error:
                if name not in str(error):
                    wrong.append(error)
                continue
            if difference != [1.0] * 3:
                wrong.append(difference)

    workers = [threading.Thread(target=work) for _ in range(4)]
    changers = [
        threading.Thread(target=change, args=(name, [module.add_one] * 2, seed))
        for seed in range(2)
    ]
    for thread in workers + changers:
        thread.start()
    for thread in changers:
        thread.join()
    done.set()
    for thread in workers:
        thread.join()
    assert not wrong
