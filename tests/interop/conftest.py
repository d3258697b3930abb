# SPDX-License-Identifier: Apache-2.0
"""Kernel libraries that other projects built; each test gets every one of them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi

HERE = Path(__file__).resolve().parent


def package_folder(name: str) -> Path:
    """Where a package is installed (found without importing it), or a skip."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed")
    return Path(spec.origin).parent


def build_with_apache_headers(library: Path, source: str, *, linked: bool) -> None:
    """Compiles a source as apache-tvm-ffi's users do, with or without a link to its runtime."""
    apache = package_folder("tvm_ffi")
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += [f"-I{apache}/include", str(HERE / source), "-o", str(library)]
    command += [f"-L{apache}/lib", "-ltvm_ffi"] if linked else []
    subprocess.run(command, check=True)


@pytest.fixture(scope="session")
def table_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that defines a kind of module, and its loader."""
    library = tmp_path_factory.mktemp("table") / "table_module.so"
    build_with_apache_headers(library, "table_module.cc", linked=True)
    return library


@pytest.fixture(scope="session")
def scale_add_apache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scale_add.cc built with apache's headers."""
    library = tmp_path_factory.mktemp("scale_add") / "scale_add.so"
    build_with_apache_headers(library, "scale_add.cc", linked=True)
    return library


@pytest.fixture(scope="session")
def tvm_exports(tmp_path_factory: pytest.TempPathFactory, table_module: Path) -> Path:
    """The folder of what Apache TVM exported."""
    package_folder("tvm")
    folder = tmp_path_factory.mktemp("tvm")
    script = [str(HERE / "export_with_tvm.py"), str(folder), str(table_module)]
    command = [sys.executable, "-W", "ignore", *script]
    environment = {k: v for k, v in os.environ.items() if k != "GRAPHFFI_RUNTIME"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session", params=["apache_headers", "apache_headers_unlinked", "tvm_export"])
def scale_add_library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A library that exports scale_add(x, out, alpha) and that graphffi had no part in."""
    if request.param == "tvm_export":
        return request.getfixturevalue("tvm_exports") / "scale_add.so"
    library = tmp_path_factory.mktemp("apache") / f"{request.param}.so"
    build_with_apache_headers(library, "scale_add.cc", linked=request.param == "apache_headers")
    return library


@pytest.fixture(scope="session")
def xgrammar_library() -> Path:
    """The library of an installed xgrammar, whose Python package need not be importable."""
    return package_folder("xgrammar") / "libxgrammar_bindings.so"


@pytest.fixture(scope="module")
def crash_library() -> str:
    return graphffi.cpp.build("crash", sources=[HERE / "crash.cc"])


@pytest.fixture(scope="module")
def crash(crash_library: str) -> Any:
    @graphffi.op("recorded::crash", kernel=f"{crash_library}::crash", plan="x, scale, out")
    def op(x: graphffi.Tensor, scale: float = 2.0) -> graphffi.Tensor:
        return graphffi.like(x)

    return op
