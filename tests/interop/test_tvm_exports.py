# SPDX-License-Identifier: Apache-2.0
"""Libraries of Apache TVM with several functions, dynamic shapes, imported modules, constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi


@pytest.fixture(scope="module")
def family(tvm_exports: Path) -> graphffi.Module:
    return graphffi.load_module(tvm_exports / "family.so")


@pytest.fixture(scope="module")
def adds_table(tvm_exports: Path, table_module: Path) -> graphffi.Module:
    graphffi.load_module(table_module)
    return graphffi.load_module(tvm_exports / "adds_table.so")


@pytest.fixture(scope="module")
def ops(family: Any) -> tuple[graphffi.Op, graphffi.Op]:
    scale_rows = graphffi.define_op(
        "tvm_exports::scale_rows",
        schema="(Tensor x, Tensor w) -> Tensor out",
        kernel=family.scale_rows,
        infer=lambda x, w: graphffi.like(x),
    )
    row_sum = graphffi.define_op(
        "tvm_exports::row_sum",
        schema="(Tensor x) -> Tensor out",
        kernel=family.row_sum,
        infer=lambda x: graphffi.empty(x.shape[:1], x.dtype),
    )
    return scale_rows, row_sum


@pytest.mark.parametrize("shape", [(3, 4), (1, 7), (5, 1)])
def test_functions_take_any_sizes(family: Any, shape: tuple[int, int]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    w = np.linspace(1, 2, shape[1], dtype=np.float32)
    out, total = np.empty_like(x), np.empty(shape[0], np.float32)
    family.scale_rows(x, w, out)
    np.testing.assert_array_equal(out, x * w)
    family.row_sum(out, total)
    np.testing.assert_allclose(total, (x * w).sum(1), rtol=1e-6)


def test_sizes_that_do_not_fit_are_an_error(family: Any) -> None:
    x, w = np.zeros((3, 4), np.float32), np.zeros(5, np.float32)
    with pytest.raises(Exception, match=r"shape|w"):
        family.scale_rows(x, w, np.empty_like(x))


@pytest.mark.needs("torch")
def test_functions_run_under_torch_compile(ops: tuple[graphffi.Op, graphffi.Op]) -> None:
    import torch

    scale_rows, row_sum = ops

    @torch.compile(fullgraph=True, dynamic=True)
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return row_sum(scale_rows(x + 1, w)) * 2

    for m, n in ((3, 4), (7, 2)):
        x, w = torch.randn(m, n), torch.randn(n)
        torch.testing.assert_close(model(x, w), ((x + 1) * w).sum(1) * 2)


@pytest.mark.needs("jax", "jaxlib")
def test_functions_run_under_jax_jit(ops: tuple[graphffi.Op, graphffi.Op]) -> None:
    import jax
    import jax.numpy as jnp

    scale_rows, row_sum = ops
    model = jax.jit(lambda x, w: row_sum(scale_rows(x + 1, w)) * 2)
    x, w = jnp.arange(12, dtype=jnp.float32).reshape(3, 4), jnp.arange(4, dtype=jnp.float32)
    np.testing.assert_allclose(model(x, w), ((x + 1) * w).sum(1) * 2, rtol=1e-6)


def check_adds_table(module: Any) -> None:
    x, out = np.arange(4.0), np.empty(4)
    module.adds_table(x, out)
    np.testing.assert_array_equal(out - x, [5, -15, 25, 35])
    (table,) = module.imports
    assert table.kind == "graphffi_tests_table"
    assert module.get_function("table_at", query_imports=True)(1) == -15


def test_function_calls_an_imported_module(adds_table: graphffi.Module) -> None:
    check_adds_table(adds_table)


def test_import_tree_is_exported_again(adds_table: graphffi.Module, tmp_path: Path) -> None:
    graphffi.cpp.export_library(adds_table, tmp_path / "again.so")
    again = graphffi.load_module(tmp_path / "again.so")
    assert again != adds_table
    check_adds_table(again)
