# SPDX-License-Identifier: Apache-2.0
"""`import graphffi` is light, and no folder of the project hides a framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "jax", "jaxlib", "numpy", "ml_dtypes", "scipy", "tvm_ffi", "tvm")
FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy")


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `statement`."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_import_loads_no_framework() -> None:
    assert not modules_after("import graphffi") & set(HEAVY)


def test_import_loads_nothing_that_reads_the_metadata_of_packages() -> None:
    assert "email" in modules_after("import importlib.metadata")
    assert "email" not in modules_after("import graphffi")


def test_public_names_load_no_framework() -> None:
    statement = "import graphffi\nfor name in dir(graphffi): getattr(graphffi, name)"
    assert not modules_after(statement) & set(HEAVY)


def test_sessions_of_onnx_runtime_load_no_torch() -> None:
    pytest.importorskip("onnxruntime")
    statement = "import graphffi_onnxruntime; graphffi_onnxruntime.register"
    assert not modules_after(statement) & {"torch", "graphffi_torch", "onnx", "onnxscript"}


def test_the_guard_sees_a_framework() -> None:
    pytest.importorskip("numpy")
    assert "numpy" in modules_after("import graphffi, numpy")


def shadowing_packages(root: Path) -> list[Path]:
    """Folders that would be imported instead of a framework."""
    inits = (init for name in FRAMEWORKS for init in root.rglob(f"{name}/__init__.py"))
    return [i for i in inits if not {".venv", "build", "site-packages"} & set(i.parts)]


def test_no_folder_hides_a_framework() -> None:
    assert not shadowing_packages(ROOT)


def test_the_guard_sees_a_hiding_folder(tmp_path: Path) -> None:
    (tmp_path / "tests" / "torch").mkdir(parents=True)
    (tmp_path / "tests" / "torch" / "__init__.py").touch()
    assert shadowing_packages(tmp_path)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_plugin_loads_only_what_its_framework_has_loaded(framework: str) -> None:
    pytest.importorskip(framework)
    added = modules_after(f"import graphffi_{framework}") - modules_after(f"import {framework}")
    others = added - set(sys.stdlib_module_names)
    assert {name for name in others if not name.startswith(("graphffi", "_"))} == set()
