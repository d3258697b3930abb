# SPDX-License-Identifier: Apache-2.0
"""The command line: ``python -m graphffi``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphffi
from graphffi._metadata import describe_function


def run(*arguments: str) -> tuple[int, str, str]:
    environment = {**os.environ, "GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
    command = [sys.executable, "-m", "graphffi", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


def test_info_says_what_is_in_use() -> None:
    status, output, _ = run("info")
    assert status == 0
    runtime = graphffi.runtime_info()
    assert runtime.path in output
    assert ".".join(map(str, runtime.version)) in output
    for word in ("graphffi ", "runtime ", "torch ", "jax ", "plugin ", "apache-tvm-ffi "):
        assert word in output


def test_inspect_shows_functions_and_imports(kernels_path: str, tmp_path: Path) -> None:
    status, output, _ = run("inspect", kernels_path)
    assert status == 0
    assert output.splitlines()[0] == f"{kernels_path}: library"
    assert "\n  echo(" in output
    assert "  # Adds 1.\n" in output
    module = graphffi.load_module(kernels_path)
    library = tmp_path / "with_import.so"
    other = graphffi.cpp.load_inline(
        "imported", cpp_sources="int one() { return 1; }", functions="one"
    )
    other.import_module(module)
    graphffi.export_library(other, library)
    _, output, _ = run("inspect", str(library))
    assert "  one() -> int\n" in output
    assert output.endswith("  imports library\n")


def test_inspect_refuses_what_is_no_library(tmp_path: Path) -> None:
    status, output, error = run("inspect", str(tmp_path / "none.so"))
    assert (status, output) == (1, "")
    assert error.startswith(f"graphffi: cannot load '{tmp_path}/none.so': expected a file")


def test_command_is_required() -> None:
    assert run()[0] == 2


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "f(...)"),
        ({"type": "ffi.Function"}, "f(...)"),
        ({"type": "ffi.Function", "args": [{"type": "int"}]}, "f() -> int"),
        (
            {"args": [{"type": "None"}, {"type": "DLTensor*"}, {"type": "Any"}]},
            "f(DLTensor*, Any) -> None",
        ),
        (
            {
                "named_args": {
                    "return": [{"type": "Optional", "args": [{"type": "ffi.Tensor"}]}],
                    "params": [{"type": "ffi.Array", "args": [{"type": "int"}]}],
                }
            },
            "f(ffi.Array[int]) -> ffi.Tensor | None",
        ),
    ],
)
def test_signatures_of_old_and_new_metadata(schema: dict[str, object], text: str) -> None:
    assert describe_function("f", schema) == text
