# SPDX-License-Identifier: Apache-2.0
"""Kernels, ops and an imitated XLA for the tests of the JAX plugin."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.jax_plugin.imitated_xla import ImitatedXla

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = ROOT / "plugins" / "jax" / "csrc"

collect_ignore_glob = [] if importlib.util.find_spec("jax") else ["test_*.py"]


@pytest.fixture(scope="session")
def library() -> str:
    """Path of the tests' kernels."""
    import graphffi

    return str(graphffi.cpp.build("jax_plugin_kernels", sources=[str(HERE / "kernels.cc")]))


@pytest.fixture(scope="session")
def compiler() -> str:
    """The C++ compiler; without one, its tests are skipped."""
    found = os.environ.get("CXX") or shutil.which("g++")
    if found is None:
        pytest.skip("needs g++")
    return found


@pytest.fixture(scope="session")
def fake_xla_path(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of an imitated XLA."""
    path = tmp_path_factory.mktemp("fake_xla") / "fake_xla.so"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{SOURCES}"]
    source = str(HERE / "fake_xla.cc")
    subprocess.run([compiler, *flags, source, "-o", str(path)], check=True, timeout=300)
    return path


@pytest.fixture(scope="session")
def fake_xla(fake_xla_path: Path, library: str) -> Callable[..., str]:
    """Runs a kernel under an imitated XLA of any API version; gives what happened."""
    import graphffi  # noqa: F401 - loads the runtime

    xla = ImitatedXla(ctypes.CDLL(str(fake_xla_path)))

    def run(*, kernel: str = "add_one", func: str | None = None, **options: Any) -> str:
        return xla.run(func or f"{library}::{kernel}", **options)

    return run


@pytest.fixture(scope="session")
def ops(library: str) -> SimpleNamespace:
    """The ops that most tests call."""
    import graphffi

    like, empty = graphffi.like, graphffi.empty

    def define(name: str, schema: str, plan: str = "", infer: Any = None) -> Any:
        kernel = f"{library}::{name}"
        return graphffi.define_op(
            f"jaxtest::{name}", schema=schema, kernel=kernel, plan=plan, infer=infer
        )

    return SimpleNamespace(
        add_one=define("add_one", "(Tensor x) -> Tensor", infer=like),
        axpy=define(
            "axpy",
            "(Tensor x, Tensor y, float a=1.0) -> Tensor",
            "a, x, out, y",
            lambda x, y, a: like(x),
        ),
        min_max=define(
            "min_max",
            "(Tensor x) -> (Tensor low, Tensor high)",
            infer=lambda x: (empty((), x.dtype), empty((), x.dtype)),
        ),
        sum_list=define("sum_list", "(Tensor[] xs) -> Tensor", infer=lambda xs: like(xs[0])),
        masked=define(
            "masked", "(Tensor x, Tensor? mask=None) -> Tensor", infer=lambda x, mask: like(x)
        ),
        append=define(
            "append",
            "(Tensor row, Tensor(a!) cache, int position) -> Tensor",
            "row, cache, position, out",
            lambda row, cache, position: empty((), row.dtype),
        ),
        increment=define("increment", "(Tensor(a!) x) -> ()"),
        copy_bytes=define("copy_bytes", "(Tensor x) -> Tensor", infer=like),
        describe=define("describe", "(Tensor x) -> Tensor", infer=lambda x: empty((12,), "int32")),
        echo=define(
            "echo", "(Tensor x, str text) -> Tensor", infer=lambda x, text: empty((4200,), "uint8")
        ),
        attributes=define(
            "attributes",
            "(Tensor x, int i, float f, bool b, str s, dtype t, Device d, int[] xs,"
            " int? maybe=None) -> Tensor",
            infer=lambda x, *_: empty((8,), "float32"),
        ),
        scratch=define("scratch", "(Tensor x) -> Tensor", infer=like),
        keep_scratch=define("keep_scratch", "(Tensor x) -> Tensor", infer=like),
        huge_scratch=define("huge_scratch", "(Tensor x) -> Tensor", infer=like),
        fail=define("fail", "(Tensor x, str kind) -> Tensor", infer=lambda x, kind: like(x)),
        takes_owning=define("takes_owning", "(Tensor x) -> Tensor", infer=like),
    )


@pytest.fixture
def run_python() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script in a fresh interpreter."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def run_script() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script with arguments in a fresh interpreter."""

    def run(script: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return run
