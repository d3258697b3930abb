# SPDX-License-Identifier: Apache-2.0
"""Kernels for the tests of the ONNX Runtime plugin."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NEEDED = ("onnxruntime", "onnx")

collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(scope="session")
def library() -> str:
    """Path of the tests' kernels."""
    import graphffi

    return str(graphffi.cpp.build("onnxruntime_kernels", sources=[str(HERE / "kernels.cc")]))
