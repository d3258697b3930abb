# SPDX-License-Identifier: Apache-2.0
"""Operands that kernels update: new arrays in JAX, the same memory where it is donated."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_the_updated_operand_is_a_new_array(ops: SimpleNamespace) -> None:
    cache, row = jnp.zeros((3, 2)), jnp.asarray([1.0, 2.0])
    for call in (ops.append, jax.jit(ops.append, static_argnums=2)):
        norm, updated = call(row, cache, 1)
        assert float(norm) == 3
        np.testing.assert_array_equal(updated, [[0, 0], [1, 2], [0, 0]])
        np.testing.assert_array_equal(cache, np.zeros((3, 2)))


def test_an_op_without_fresh_results(ops: SimpleNamespace) -> None:
    x = jnp.zeros((2, 2))
    np.testing.assert_array_equal(ops.increment(x), np.ones((2, 2)))
    np.testing.assert_array_equal(jax.jit(ops.increment)(x), np.ones((2, 2)))
    np.testing.assert_array_equal(x, np.zeros((2, 2)))


def test_a_donated_operand_keeps_its_memory(ops: SimpleNamespace) -> None:
    step = jax.jit(ops.increment, donate_argnums=0)
    x = step(jnp.zeros(1024))
    address = x.unsafe_buffer_pointer()
    for _ in range(3):
        x = step(x)
    assert x.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(x, np.full(1024, 4))
    text = step.lower(x).compile().as_text()
    assert "output_to_operand_aliasing={{}: (0, {})}" in text
    assert not re.search(r"f32\[1024\]\S* copy\(", text)


def test_a_loop_updates_in_place(ops: SimpleNamespace) -> None:
    def loop(cache: Any, row: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda i, c: ops.append(row + i, c, 1)[1], cache)

    jitted = jax.jit(loop, donate_argnums=0)
    cache, row = jnp.zeros((4, 8)), jnp.ones(8)
    text = jitted.lower(cache, row).compile().as_text()
    assert not re.search(r"f32\[4,8\]\S* copy\(", text)
    expected = np.zeros((4, 8), np.float32)
    expected[1] = 100
    np.testing.assert_array_equal(jitted(cache, row), expected)


def test_carries_of_scan_and_while_are_updated_in_place(ops: SimpleNamespace) -> None:
    def step(cache: Any, row: Any) -> Any:
        norm, cache = ops.append(row, cache, 2)
        return cache, norm

    def scan(cache: Any, rows: Any) -> Any:
        return jax.lax.scan(step, cache, rows)

    def loop(cache: Any, rows: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[2, 0] < 5, lambda c: step(c, c[2] + 1)[0], cache)

    cache, rows = jnp.zeros((4, 8)), jnp.arange(24.0).reshape(3, 8)
    for f in (scan, loop):
        step_in_place = jax.jit(f, donate_argnums=0)
        text = step_in_place.lower(cache, rows).compile().as_text()
        assert "tvm_ffi.call" in text
        assert not re.search(r"f32\[4,8\]\S* copy\(", text)
    expected = np.zeros((4, 8), np.float32)
    expected[2] = rows[2]
    np.testing.assert_array_equal(jax.jit(scan)(cache, rows)[0], expected)
    assert jax.jit(loop)(cache, rows)[2, 0] == 5
    address = cache.unsafe_buffer_pointer()
    assert step_in_place(cache, rows).unsafe_buffer_pointer() == address


def test_branches_update_a_donated_operand(ops: SimpleNamespace) -> None:
    def f(flag: Any, x: Any) -> Any:
        return jax.lax.cond(flag, ops.increment, lambda x: ops.increment(ops.increment(x)), x)

    x = jnp.zeros(512)
    step = jax.jit(f, donate_argnums=1)
    # XLA copies inside of conditionals, for updates of its own too.
    address = x.unsafe_buffer_pointer()
    x = step(False, step(True, x))
    np.testing.assert_array_equal(x, np.full(512, 3))
    assert x.unsafe_buffer_pointer() == address


def test_a_value_that_is_still_needed_is_not_clobbered(ops: SimpleNamespace) -> None:
    def both(x: Any) -> Any:
        y = x * 2
        return ops.increment(y), ops.increment(y), y

    first, second, y = jax.jit(both)(jnp.ones(5))
    np.testing.assert_array_equal(y, np.full(5, 2))
    np.testing.assert_array_equal(first, np.full(5, 3))
    np.testing.assert_array_equal(second, np.full(5, 3))


def test_an_array_may_be_read_and_updated_by_one_call(ops: SimpleNamespace) -> None:
    x = jnp.asarray([[1.0, 2.0]])
    norm, updated = jax.jit(lambda x: ops.append(x, x, 0))(x)
    assert float(norm) == 3
    np.testing.assert_array_equal(updated, x)


def test_a_gradient_through_an_update_is_refused_with_what_helps(ops: SimpleNamespace) -> None:
    text = "jaxtest::increment: backward: .*, got none; define an op that returns new tensors"
    with pytest.raises(NotImplementedError, match=text):
        jax.grad(lambda x: ops.increment(x).sum())(jnp.ones(3))


def test_an_error_in_an_update_names_op_and_attribute(ops: SimpleNamespace) -> None:
    text = r"IndexError: jaxtest::append: attribute 'position': expected 0 to 1, got 2"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        ops.append(jnp.zeros(3), jnp.zeros((2, 3)), 2)


def test_arrays_stay_in_the_hosts_memory(ops: SimpleNamespace) -> None:
    device = jax.devices()[0]
    if "pinned_host" not in [memory.kind for memory in device.addressable_memories()]:
        pytest.skip("needs a newer jax")
    host = jax.sharding.SingleDeviceSharding(device).with_memory_kind("pinned_host")
    if (jax.device_put(jnp.zeros(1), host) + 1).sharding.memory_kind != "pinned_host":
        pytest.skip("needs a newer jax")

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, x: ops.increment(x), x)

    for f, expected in ((ops.increment, 1), (ops.add_one, 1), (loop, 2)):
        for call in (f, jax.jit(f), jax.jit(f, donate_argnums=0)):
            y = call(jax.device_put(jnp.zeros(64), host))
            assert y.sharding.memory_kind == "pinned_host"
            np.testing.assert_array_equal(y, np.full(64, expected))
    total, updated = jax.jit(ops.append, static_argnums=2, donate_argnums=1)(
        jnp.ones(2), jax.device_put(jnp.zeros((3, 2)), host), 1
    )
    assert updated.sharding.memory_kind == "pinned_host"
    assert total.sharding.memory_kind == device.default_memory().kind
