# SPDX-License-Identifier: Apache-2.0
"""The CMake package with TVM FFI's names, for projects that look for that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import graphffi

TOOLS = Path(sys.executable).parent
CMAKE = Path(graphffi.__file__).parent / "share" / "cmake"
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(demo CXX)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
find_package(tvm_ffi CONFIG REQUIRED)
add_library(linked SHARED kernels.cc)
tvm_ffi_configure_target(linked)
tvm_ffi_install(linked DESTINATION .)
add_library(unlinked SHARED empty.cc)
tvm_ffi_configure_target(unlinked LINK_SHARED OFF)
"""
KERNELS = """
#include <tvm/ffi/tvm_ffi.h>
void Fail() { TVM_FFI_THROW(ValueError) << "from " << __FILE__; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
"""


def tool(name: str) -> str:
    path = shutil.which(name, path=TOOLS) or shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


def configure(folder: Path, project: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(project)
    (folder / "kernels.cc").write_text(KERNELS)
    (folder / "empty.cc").write_text("extern int nothing;\n")
    make = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    command = [tool("cmake"), "-GNinja", make, "-S", folder, "-B", folder / "build", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build(folder: Path, project: str, package: str) -> Path:
    """The folder with what a project makes that finds the package."""
    result = configure(folder, project, f"-D{package}_ROOT={CMAKE}")
    assert result.returncode == 0, result.stderr
    subprocess.run([tool("cmake"), "--build", folder / "build"], check=True, capture_output=True)
    return folder / "build"


ADDED = """
cmake_minimum_required(VERSION 3.18)
project(demo CXX)
find_package(graphffi 0.1 CONFIG REQUIRED)
"""


@pytest.mark.slow
def test_kernels_are_added_by_one_call(tmp_path: Path) -> None:
    project = f"{ADDED}graphffi_add_kernels(mykernels kernels.cc)\n"
    built = build(tmp_path, project, "graphffi")
    module = graphffi.load_module(str(built / "libmykernels.so"))
    assert module.get_function_metadata("fail")
    with pytest.raises(ValueError, match=r"^from "):
        module.fail()


@pytest.mark.slow
def test_a_library_without_ops_is_refused_where_it_is_to_have_some(tmp_path: Path) -> None:
    project = f"{ADDED}graphffi_add_kernels(mykernels kernels.cc OPS)\n"
    configure(tmp_path, project, f"-Dgraphffi_ROOT={CMAKE}")
    command = [tool("cmake"), "--build", tmp_path / "build"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "expected ops by GRAPHFFI_EXPORT_OP, got none" in result.stdout
    assert not (tmp_path / "build/libmykernels.so").exists()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("graphffi_add_kernels(empty OPS)", "(empty): expected sources, got none"),
        ("graphffi_add_kernels(gpu kernels.cu)", "expected the language CUDA for .cu sources"),
    ],
)
def test_wrong_kernels_are_errors(tmp_path: Path, call: str, text: str) -> None:
    project = ADDED.replace("CXX)", "NONE)") + call
    result = configure(tmp_path, project, f"-Dgraphffi_ROOT={CMAKE}")
    assert text in re.sub(r"\s+", " ", result.stderr)


def test_pkg_config_finds_headers_and_runtime() -> None:
    folder = CMAKE.with_name("pkgconfig")
    text = (folder / "graphffi.pc").read_text()
    assert f"Version: {graphffi.__version__}\n" in text
    command = [tool("pkg-config"), "--cflags", "--libs", "graphffi"]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    flags = output.stdout.split()
    folders = [Path(flag[2:]) for flag in flags if flag.startswith(("-I", "-L"))]
    assert any((folder / "tvm/ffi/tvm_ffi.h").is_file() for folder in folders)
    assert any((folder / "libtvm_ffi.so").is_file() for folder in folders)
    assert "-ltvm_ffi" in flags
    config = [sys.executable, "-m", "graphffi", "config", "--cflags", "--ldflags"]
    printed = subprocess.run(config, capture_output=True, text=True, check=True).stdout.split()
    paths = ("-I", "-L", "-Wl,-rpath,")
    assert [flag for flag in flags if not flag.startswith(paths)] == [
        flag for flag in printed if not flag.startswith(paths)
    ]


@pytest.mark.slow
def test_a_project_for_tvm_ffi_builds_and_runs(tmp_path: Path) -> None:
    built = build(tmp_path, PROJECT, "tvm_ffi")
    for name, needs in (("linked", True), ("unlinked", False)):
        command = ["readelf", "-d", built / f"lib{name}.so"]
        listing = subprocess.run(command, capture_output=True, text=True)
        assert ("[libtvm_ffi.so]" in listing.stdout) == needs
    with pytest.raises(ValueError, match=r"^from kernels\.cc"):
        graphffi.load_module(str(built / "liblinked.so")).fail()


def test_it_is_found_in_the_package(tmp_path: Path) -> None:
    package = Path(graphffi.__file__).parent
    project = (
        "cmake_minimum_required(VERSION 3.18)\nproject(demo NONE)\nfind_package(tvm_ffi REQUIRED)"
    )
    result = configure(tmp_path, project, f"-DCMAKE_PREFIX_PATH={package}")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("tvm_ffi_configure_target(nope)", "expected a target, got 'nope'"),
        ("tvm_ffi_install(nope)", "expected a target, got 'nope'"),
        ("tvm_ffi_configure_target(linked LINKED ON)", "expected known arguments, got 'LINKED;ON'"),
        ("tvm_ffi_configure_target(linked STUB_INIT ON)", "expected STUB_DIR with other STUB_"),
    ],
)
def test_wrong_uses_are_errors(tmp_path: Path, call: str, text: str) -> None:
    project = PROJECT.replace("project(demo CXX)", "project(demo NONE)") + call
    result = configure(tmp_path, project, f"-Dtvm_ffi_ROOT={CMAKE}")
    assert text in re.sub(r"\s+", " ", result.stderr)


def test_its_folder_is_told() -> None:
    command = [sys.executable, "-m", "graphffi", "config", "--cmakedir"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == f"{CMAKE}\n"
    assert Path(output.strip(), "tvm_ffi", "tvm_ffi-config.cmake").is_file()
