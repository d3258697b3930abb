# SPDX-License-Identifier: Apache-2.0
"""One kernel source, compiled with apache's headers and with ours, on both runtimes.

Results, error texts and metadata are the same.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest
from toolchain import HERE, INCLUDE, RUNTIMES, Toolchain

pytestmark = pytest.mark.slow

SOURCE = HERE / "cpp/kernel_features.cc"


def apache_include() -> Path:
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        pytest.skip("apache-tvm-ffi is not installed")
    return Path(spec.origin).parent / "include"


def compile_with(include: Path, target: Path) -> Path:
    """A library of the kernel source over one set of headers, which names no runtime."""
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}"]
    subprocess.run(["g++", *flags, str(SOURCE), "-o", str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cross")
    includes = {"ours": INCLUDE, "apache": apache_include()}
    return {name: compile_with(path, folder / f"{name}.so") for name, path in includes.items()}


def output(toolchain: Toolchain, library: Path, runtime: str) -> list[str]:
    driver = toolchain.program(HERE / "cpp/kernel_driver.cc", flags=("-ldl",))
    return toolchain.run(driver, str(library), runtime=runtime).stdout.splitlines()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_results_and_error_texts_are_those_of_apaches_headers(
    toolchain: Toolchain, libraries: dict[str, Path], runtime: str
) -> None:
    lines = output(toolchain, libraries["ours"], runtime)
    assert lines == output(toolchain, libraries["apache"], runtime)
    assert len(lines) > 40
    assert not [line for line in lines if "no symbol" in line]
