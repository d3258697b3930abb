# SPDX-License-Identifier: Apache-2.0
"""The decoder on FlashInfer's kernels, as far as it goes without a GPU."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from examples.flashinfer import build, model, ops
from examples.flashinfer.config import BATCH, PAGE_SIZE, VOCABULARY

_TOKEN, _POSITION = np.zeros(BATCH, "int32"), np.int32(3)


def test_the_step_runs_on_fake_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("graphffi_torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    def fake(array: Any) -> Any:
        array = np.asarray(array)
        return torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)))

    trees = (model.make_weights(), model.make_constants(), model.make_caches(), _TOKEN, _POSITION)
    with FakeTensorMode():
        fakes = [model.mapped(fake, tree) for tree in trees]
        token, logits, _ = model.step(*fakes, torch.Tensor.float)
    assert (token.shape, token.dtype) == ((BATCH,), torch.int32)
    assert (logits.shape, logits.dtype) == ((BATCH, VOCABULARY), torch.float32)


def test_jax_lowers_every_op_for_a_gpu() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("graphffi_jax")

    def step(*args: Any) -> Any:
        return model.step(*args, lambda x: x.astype("float32"))

    caches = model.make_caches()
    args = (model.make_weights(), model.make_constants(), caches, _TOKEN, _POSITION)
    lowered = jax.jit(step).trace(*args).lower(lowering_platforms=("cuda",))
    called = set(re.findall(r"kernel (flashinfer_\w+)\.so::\w+", lowered.as_text()))
    assert called == {f"flashinfer_{name}" for name in build.SOURCES}
    subjects = set(re.findall(r"subject (\w+::\w+)", lowered.as_text()))
    assert subjects == {op.name for op in vars(ops).values() if isinstance(op, graphffi.Op)}


@pytest.mark.parametrize("position", [0, PAGE_SIZE - 1, PAGE_SIZE, 5 * PAGE_SIZE + 3])
def test_the_table_has_the_pages_in_use(position: int) -> None:
    found = model.page_table(model.make_constants(), np.int32(position))
    indices, indptr, last = found
    pages = [list(indices[b:e]) for b, e in itertools.pairwise(indptr)]
    count = position // PAGE_SIZE + 1
    assert pages == [[p * BATCH + s for p in range(count)] for s in range(BATCH)]
    assert list(last) == [position % PAGE_SIZE + 1] * BATCH
    assert {array.dtype.name for array in found} == {"int32"}


@pytest.mark.slow
def test_the_smallest_library_compiles(tmp_path: Path) -> None:
    source = build.find_source()
    if source is None or shutil.which("nvcc") is None:
        pytest.skip("needs nvcc, and the sources of flashinfer-python in FLASHINFER_SOURCE")
    (path,) = build.build(["activation"], source, "sm_90a", tmp_path)
    assert graphffi.load_module(path).get_function("silu_and_mul").name == "silu_and_mul"
