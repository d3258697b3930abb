# SPDX-License-Identifier: Apache-2.0
"""The package itself: what importing it does and needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphffi_jax


def test_public_names() -> None:
    for name in graphffi_jax.__all__:
        assert hasattr(graphffi_jax, name)
    assert graphffi_jax.inspect().targets == ("tvm_ffi.call", "tvm_ffi.call_graph")


def test_the_core_imports_the_plugin_for_the_first_array(run_python: Callable[[str], Any]) -> None:
    script = """
import sys, graphffi
assert "jax" not in sys.modules
import jax, jax.numpy as jnp
assert "graphffi_jax" not in sys.modules
try:
    graphffi.call_tvm_ffi("nope", jnp.zeros(2), out=graphffi.empty((2,), "float32"))
except Exception as error:
    print(isinstance(error, jax.errors.JaxRuntimeError))
assert "graphffi_jax" in sys.modules
"""
    result = run_python(script)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "True"


def test_importing_it_twice_is_fine(run_python: Callable[[str], Any]) -> None:
    script = """
import sys, graphffi_jax
for name in [n for n in sys.modules if n.startswith("graphffi_jax")]:
    del sys.modules[name]
import graphffi_jax
"""
    result = run_python(script)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "names",
    [
        ("tvm_ffi.none", "cpu", "execute"),
        ("tvm_ffi.call", "tpu", "execute"),
        ("tvm_ffi.call", "cpu", "prepare"),
    ],
)
def test_there_is_no_handler_for_other_names(names: tuple[str, str, str]) -> None:
    folder = Path(graphffi_jax.__file__).parent / "lib"
    library = ctypes.CDLL(str(folder / "libgraphffi_jax.so"))
    library.graphffi_jax_handler.restype = ctypes.c_void_p
    assert library.graphffi_jax_handler(*(name.encode() for name in names)) is None
