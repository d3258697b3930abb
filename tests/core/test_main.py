# SPDX-License-Identifier: Apache-2.0
"""The command ``graphffi``."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphffi
from graphffi._values.metadata import describe_function

from .conftest import HERE


def run(*arguments: str) -> tuple[int, str, str]:
    environment = {**os.environ, "GRAPHFFI_RUNTIME": graphffi.runtime_info().path}
    command = [sys.executable, "-m", "graphffi", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.slow
def test_doctor_says_what_is_in_use() -> None:
    status, output, _ = run("doctor")
    assert status == 0
    runtime = graphffi.runtime_info()
    assert runtime.path in output
    assert ".".join(map(str, runtime.version)) in output
    for word in (
        "graphffi ",
        "runtime ",
        "torch ",
        "jax ",
        "apache-tvm ",
        "CXX ",
        "gpu ",
        "cache ",
    ):
        assert word in output
    has_framework = any(map(importlib.util.find_spec, ("torch", "jax")))
    assert ("plugin " in output) == has_framework


def test_doctor_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    hidden = tmp_path / "sitecustomize.py"  # frameworks take seconds to import
    hidden.write_text("import sys; sys.modules.update(torch=None)\n")
    (tmp_path / "jax.py").write_text("raise AssertionError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status, output, _ = run("doctor", "--json")
    facts = json.loads(output)
    assert status == 1
    plugin, compiler = facts["problems"]
    assert plugin.startswith("graphffi_jax: AssertionError: ")
    assert compiler.startswith("graphffi.cpp: expected a C++ compiler, got CXX=no-such-compiler")
    assert {"name": "torch", "text": "not installed", "problem": ""} in facts["facts"]


@pytest.mark.slow
def test_doctor_shows_a_cache_that_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = f"{tmp_path}/{'x' * 300}"  # too long: root may look at any other
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", folder)
    _, output, _ = run("doctor", "--json")
    (text,) = (fact["text"] for fact in json.loads(output)["facts"] if fact["name"] == "cache")
    assert text == f"{folder}, 0 files, 0.0 MiB"


def test_config_prints_flags() -> None:
    status, output, _ = run("config", "--cflags")
    assert status == 0
    assert f"-I{graphffi.cpp.include_path()}" in output.split()
    assert "-ltvm_ffi" not in output
    _, output, _ = run("config", "--json")
    bundled = Path(graphffi.__file__).parent / "_lib"
    # For programs as well as libraries: no -shared.
    assert json.loads(output)["ldflags"] == [
        *(f"-L{bundled}", f"-Wl,-rpath,{bundled}", "-ltvm_ffi")
    ]


def test_config_loads_no_runtime() -> None:
    program = (
        "import sys, graphffi_command; sys.argv = ['graphffi', 'config', '--cmakedir']; "
        "status = graphffi_command.main(); sys.exit(status or 'graphffi' in sys.modules)"
    )
    root = Path(graphffi.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert Path(result.stdout.strip(), "graphffi", "graphffi-config.cmake").is_file()


def test_inspect_shows_ops() -> None:
    library = graphffi.cpp.build("op_library", [HERE / "op_library.cc"], extra_cflags=["-O1"])
    _, output, _ = run("inspect", library)
    assert "\n  op twice(Tensor x) -> Tensor\n    shape: like(x)\n    vmap: broadcast\n" in output
    _, output, _ = run("inspect", library, "--json")
    facts = json.loads(output)
    assert facts["ops"]["rms_norm"]["doc"].startswith("Root-mean-square norm.")
    assert "rms_norm" in [function["name"] for function in facts["functions"]]


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
    graphffi.cpp.export_library(other, library)
    _, output, _ = run("inspect", str(library))
    assert "  one() -> int\n" in output
    assert output.endswith("  imports library\n")


def test_inspect_refuses_what_is_no_library(tmp_path: Path) -> None:
    status, output, error = run("inspect", str(tmp_path / "none.so"))
    assert (status, output) == (1, "")
    assert error.startswith(f"graphffi: cannot load '{tmp_path}/none.so': expected a file")


def test_failures_are_json_where_that_is_asked_for(tmp_path: Path) -> None:
    status, _, error = run("inspect", "--json", str(tmp_path / "none.so"))
    assert status == 1
    assert json.loads(error)["error"].startswith("graphffi: cannot load")


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
