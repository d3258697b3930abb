# SPDX-License-Identifier: Apache-2.0
"""``graphffi generate`` on libraries of others and of ours: what passes `check` without an edit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._values.metadata import describe_function, parameters_of

pytest.importorskip("numpy")

from graphffi._command.command import main
from graphffi.testing import find

from .conftest import package_folder

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
# Metadata of the functions that loading a library registers, in a process of its own.
REGISTERED = """
import json, sys, tvm_ffi
before = set(tvm_ffi.registry.list_global_func_names())
tvm_ffi.load_module(sys.argv[1])
names = set(tvm_ffi.registry.list_global_func_names()) - before
print(json.dumps({name: tvm_ffi.get_global_func_metadata(name) for name in names}), flush=True)
import os; os._exit(0)
"""


@dataclass
class Row:
    """What came of a library."""

    library: str
    functions: int
    with_metadata: int
    of_tensors: int
    to_fill_in: int
    complete: int
    passing: int = 0


def sources(*names: str) -> list[Path]:
    return [ROOT / name for name in names]


@pytest.fixture(scope="module")
def libraries(tvm_exports: Path) -> dict[str, Path]:
    examples = {
        "examples/digits": sources("examples/digits/kernels.cc"),
        "examples/llama_block": sources("examples/llama_block/kernels.cc"),
        "examples/quickstart": sources("examples/quickstart/kernels.cc"),
        "examples/kernel_library": sources("examples/kernel_library/src/rms_norm.cc"),
        "tests/testing, correct ops": sources("tests/testing/faults.cc"),
    }
    found = {
        name: Path(graphffi.cpp.build(files[0].stem, files, extra_cflags=["-O1"]))
        for name, files in examples.items()
    }
    found["Apache TVM, scale_add"] = tvm_exports / "scale_add.so"
    found["Apache TVM, family"] = tvm_exports / "family.so"
    found["apache-tvm-ffi, testing"] = package_folder("tvm_ffi") / "lib" / "libtvm_ffi_testing.so"
    found["xgrammar"] = package_folder("xgrammar") / "libxgrammar_bindings.so"
    return found


def signatures(path: Path) -> dict[str, str]:
    """Of all functions, those that it registers among them; empty without metadata."""
    module = graphffi.load_module(path)
    found = {name: module.get_function_metadata(name) for name in module.function_names()}
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED, str(path)], capture_output=True, text=True
    )
    if done.returncode == 0:
        found |= json.loads(done.stdout)
    texts = {}
    for name, metadata in found.items():
        schema = (metadata or {}).get("type_schema")
        schema = json.loads(schema) if isinstance(schema, str) else schema
        is_known = schema is not None and parameters_of(schema) is not None
        texts[name] = describe_function(name, schema) if is_known else ""
    return texts


def measured(name: str, path: Path, output: Path, capsys: Any) -> Row:
    texts = signatures(path)
    arguments = [str(path), "-o", str(output), "--namespace", output.stem, "--json"]
    assert main(["generate", *arguments]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert main(["generate", *arguments, "--check"]) == 0, "a new run gives no difference"
    capsys.readouterr()
    complete = [one for one in facts["written"] if one not in facts["todo"]]
    if "correct" in name:
        texts = {one: text for one, text in texts.items() if one.startswith("good_")}
        complete = [one for one in complete if one in texts]
    of_tensors = [one for one in texts.values() if "DLTensor*" in one or "ffi.Tensor" in one]
    row = Row(
        name, len(texts), sum(map(bool, texts.values())), len(of_tensors), len(facts["todo"]),
        len(complete),
    )  # fmt: skip
    if facts["todo"]:
        assert f"{output.stem}::" in refused_import(output)
        return row
    for one in complete:
        target = {"op": f"{output.stem}::{one}", "module": output.stem, "file": str(output)}
        report = find(target, frameworks=())
        row.passing += not report.findings
    return row


def refused_import(path: Path) -> str:
    """The error of a file with something to fill in."""
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr


def test_ops_without_anything_to_fill_in_pass_check(
    libraries: dict[str, Path], tmp_path: Path, capsys: Any
) -> None:
    rows = [
        measured(name, path, tmp_path / f"generated_{i}.py", capsys)
        for i, (name, path) in enumerate(libraries.items())
    ]
    print(json.dumps([asdict(row) for row in rows], indent=1))
    complete = sum(row.complete for row in rows)
    assert complete >= 5
    assert sum(row.passing for row in rows) >= 0.8 * complete
