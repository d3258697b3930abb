# SPDX-License-Identifier: Apache-2.0
"""One kernel source, compiled with the headers of earlier TVM FFI releases, on both runtimes.

The headers come from the wheels on PyPI; they are kept in the build folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from toolchain import HERE, ROOT, RUNTIMES, SANITIZE, Toolchain, runtime_path

pytestmark = pytest.mark.slow

#: The first release, the ones that changed metadata, error cells, how types and optionals are
#: registered, or the built-in types, and whatever is newest.
RELEASES = ("0.1.0", "0.1.4", "0.1.5", "0.1.8.post2", "0.1.9", "0.1.12", "0.1.13.post3")
RELEASES += ("0.1.14.post1", "newest")
CACHE = ROOT / "build/apache_headers"
SOURCE = HERE / "cpp/kernel_features.cc"


def include_of(release: str) -> Path:
    """The headers of a release; skips the test where PyPI cannot be reached, except in CI."""
    folder = CACHE / release
    include = folder / "tvm_ffi/include"
    if not include.exists():
        requirement = "apache-tvm-ffi" + ("" if release == "newest" else f"=={release}")
        # Any wheel will do: the headers are the same for every version of Python.
        flags = ["--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_28_x86_64"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *flags]
        command += ["--dest", str(folder), requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            message = f"cannot download {requirement}: {result.stderr.strip()[-300:]}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith("tvm_ffi/include/")]
            archive.extractall(folder, names)
    return include


@pytest.fixture(scope="module", params=RELEASES)
def kernels(request: pytest.FixtureRequest, toolchain: Toolchain) -> Path:
    """The library, built with the headers of one release."""
    include = include_of(request.param)
    target = toolchain.folder / f"release_{request.param}.so"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-isystem{include}"]
    subprocess.run(["g++", *flags, str(SOURCE), "-o", str(target)], check=True)
    return target


def output(toolchain: Toolchain, kernels: Path, runtime: str) -> list[str]:
    """What the driver prints, without the one text that is a runtime's own."""
    driver = toolchain.program(HERE / "cpp/kernel_driver.cc", flags=("-ldl",))
    lines = toolchain.run(driver, str(kernels), runtime=runtime).stdout.splitlines()
    return [line for line in lines if "'int8x'" not in line]


@pytest.mark.skipif("bundled" not in RUNTIMES, reason="the bundled runtime is what is tested")
def test_kernels_of_every_release_run(kernels: Path, toolchain: Toolchain) -> None:
    lines = output(toolchain, kernels, "bundled")
    assert len(lines) > 40
    expected = (
        "add_one: None",
        "describe: 2307",
        "scalars: 1 2 1 longer than seven int8 1:0 4 0",
        "call_back: 15",
        "call_back: IndexError: from the callback",
        "fail: ValueError: bad value 0",
        "by_hand: 42",
        "make_counter: ffi.Module",
        "keep: ffi.Array",
    )
    assert [line for line in expected if line not in lines] == []
    if not SANITIZE:
        runtime_path("apache")  # skips the comparison where it is not installed
        assert lines == output(toolchain, kernels, "apache")
