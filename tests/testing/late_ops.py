# SPDX-License-Identifier: Apache-2.0
"""Ops that are right unless the first call of a process is a large one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np  # its import starts threads, where nothing says how many

import graphffi


def _op(name: str, at_first: Callable[[Any, Any], None]) -> graphffi.Op:
    tables: list[int] = []

    def kernel(x: Any, out: Any) -> None:
        x, out = np.from_dlpack(x), np.from_dlpack(out)
        if not tables and x.size > 8:
            at_first(x, out)
        else:
            tables.append(x.size)
            out[...] = x

    return graphffi.define_op(
        f"late::{name}", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like,
        dtypes="float32 -> float32", dims="n -> n",
    )  # fmt: skip


def _raise(x: Any, out: Any) -> None:
    raise RuntimeError("expected a table, got none")


aborts = _op("aborts", lambda x, out: os.abort())
raises = _op("raises", _raise)
doubles = _op("doubles", lambda x, out: np.multiply(x, 2, out))
