# SPDX-License-Identifier: Apache-2.0
"""Sharded programs: calls are split along the dimensions that `dims` leaves free."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

pytestmark = pytest.mark.slow

SPLIT = [
    "outer", "inner", "behind", "last", "leading", "no split", "two operands", "one of two", "list",
    "updated", "workspace", "side effect", "vmap", "vmap inside", "moved", "weight", "grid",
    "sizes", "swapped", "both", "two axes", "result", "large", "added", "bumped", "added twice",
]  # fmt: skip
LOOPS = [
    "loop", "loop in loop", "crossed loops", "loop inside", "loop of updates", "no loop",
    "loop of bool", "loop of int4", "loop of bfloat16", "loop of complex64", "loop of float8_e5m2",
]  # fmt: skip
IN_SHARD_MAP = ["shard_map", "partial", "varying", "loop in shard_map", "loop in part"]
EXPORTED = ["exported", "exported symbolic"]
EXPLICIT = [
    "explicit",
    "explicit one",
    "explicit vmap",
    "explicit inside",
    "explicit loop",
    "explicit added",
    "explicit names",
    "explicit single",
    "explicit whole",
    "mixed",
]


@pytest.fixture(scope="module")
def results(library: str) -> dict[str, Any]:
    """What came of each case; see sharded.py."""
    script = Path(__file__).with_name("sharded.py")
    done = subprocess.run(
        [sys.executable, script, library], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", SPLIT + LOOPS + IN_SHARD_MAP + EXPLICIT + EXPORTED)
def test_a_call_is_split_without_moving_anything(results: dict[str, Any], name: str) -> None:
    if name not in results and name not in SPLIT + LOOPS:
        pytest.skip("needs a newer jax, or flatbuffers")
    if name in ("partial", "loop in part") and jax.__version_info__ < (0, 7):
        pytest.skip("this jax gathers what is split over axes that shard_map leaves alone")
    assert results[name] == {"moved": [], "alike": True}


def test_xla_asks_no_partitioner_in_shard_map(results: dict[str, Any]) -> None:
    if "shard_map" not in results:
        pytest.skip("needs a newer jax")
    assert results["local"]


def test_gradients_in_shard_map_sum_over_the_parts(results: dict[str, Any]) -> None:
    if "shard_map" not in results:
        pytest.skip("needs a newer jax")
    assert results["gradient"]


def test_derivatives_of_a_split_batch_are_split(results: dict[str, Any]) -> None:
    if "explicit" not in results:
        pytest.skip("needs a newer jax")
    assert results["explicit derivatives"]


@pytest.mark.parametrize("name", ["gathered", "explicit gathered"])
def test_what_the_program_gathers_is_whole(results: dict[str, Any], name: str) -> None:
    if name not in results:
        pytest.skip("needs a newer jax")
    assert results[name] == {"moved": ["all-gather"], "alike": True}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("whole", "jaxsharding::add: operand 'x': expected dimension 2 [h] whole on every device"),
        ("nameless", "jaxsharding::nameless: operand 'x': expected dimension 0 whole on every"),
        ("alike", "jaxsharding::added: operand 'x': expected dimension 0 whole on every device"),
        ("listed", "operand 'xs[0]': expected dimension 2 [h] whole on every device, got it in 4"),
        ("listed", "operand 'xs[1]': expected dimension 2 [h] whole on every device, got it in 4"),
        ("updated", "jaxsharding::increment: operand 'x': expected dimension 1 [s] whole on every"),
        ("unequal", "operand 'x': expected dimension 0 b in equal parts, got size 7 in 4 parts; g"),
        ("unequal", "or call the op in jax.shard_map, or pad it to a multiple of 4"),
        ("loop", "looped: operand 'x': expected dimension 2 [h] whole on every device, got it in"),
        (
            "lost",
            "::add_one: arrays: expected 'a' of operand 'x' in every result, got 'x",
        ),
        (
            "short",
            "::add_one: arrays: expected 1 arrays with [3] dimensions on a side, g",
        ),
        ("raw", "::add_one: operand 'i0': expected dimension 0 whole on every device, got it in 4"),
        ("whole", "gather it with jax.lax.with_sharding_constraint or jax.sharding.reshard, or "),
    ],
)
@pytest.mark.parametrize("way", ["jit", "eager"])
def test_another_split_is_refused_by_name(
    results: dict[str, Any], name: str, text: str, way: str
) -> None:
    kind, message = results[f"{name} {way}"]
    assert kind == "XLA"
    assert "ValueError: " in message
    assert text in message


def test_versions_that_would_gather_for_symbolic_sizes_refuse(results: dict[str, Any]) -> None:
    if "too old" not in results:
        pytest.skip("needs an older jax")
    assert "expected jax 0.9 or newer for a program of several devices" in results["too old"]


def test_the_original_exception_is_a_value_error(results: dict[str, Any]) -> None:
    kind, message = results["original"]
    assert kind == "ValueError"
    assert message.startswith("jaxsharding::add: operand 'x': expected dimension 2 [h] whole on")
    assert message.endswith("name the dimension in dims= outside of brackets")


def test_arrays_of_two_devices_are_refused_by_name(results: dict[str, Any]) -> None:
    kind, message = results["devices eager"]
    assert kind == "ValueError"
    assert "Got argument operands[0] of jaxsharding::axpy with shape float32[8,4,12]" in message


@pytest.mark.parametrize("way", ["jit", "eager"])
def test_types_with_explicit_axes_refuse_while_they_are_traced(
    results: dict[str, Any], way: str
) -> None:
    if "explicit" not in results:
        pytest.skip("needs a newer jax")
    assert results[f"explicit {way}"] == results["original"]
    kind, message = results[f"two ways {way}"]
    assert kind == "ValueError"
    assert "operand 'y': expected dimension 's' split as operand 'x' is, along one axis" in message
    kind, message = results[f"two meshes {way}"]
    assert kind == "ValueError"
    text = "jaxsharding::axpy: operand 'y': expected the mesh of operand 'x', {'i': 4}, got {'i': 2"
    assert text in message


@pytest.mark.parametrize(
    ("name", "operand"), [("terms", "axpy: operand 'y'"), ("explicit terms", "looped: operand 'x'")]
)
@pytest.mark.parametrize("way", ["jit", "eager"])
def test_terms_of_a_sum_are_refused_by_name(
    results: dict[str, Any], name: str, operand: str, way: str
) -> None:
    if f"{name} {way}" not in results:
        pytest.skip("needs a newer jax")
    assert results[f"{name} {way}"] == [
        "ValueError",
        f"jaxsharding::{operand}: expected a sum over mesh axis 'i', got its terms (unreduced); "
        "take the sum with jax.lax.psum or jax.sharding.reshard before the call",
    ]


def test_programs_of_one_device_say_nothing_of_it(
    ops: Any,
) -> None:
    import jax
    import jax.numpy as jnp

    text = jax.jit(ops.add_one).lower(jnp.ones(3)).as_text()
    assert r"\0Aarrays x -\3E out" in text or r"\0Aarrays x -> out" in text
