# SPDX-License-Identifier: Apache-2.0
"""No circles of imports in a package, imports for types and those inside of functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "graphffi": ROOT / "graphffi",
    "graphffi_torch": ROOT / "plugins/torch/graphffi_torch",
    "graphffi_jax": ROOT / "plugins/jax/graphffi_jax",
    "graphffi_onnxruntime": ROOT / "plugins/onnxruntime/graphffi_onnxruntime",
}
#: Modules without Python code, which may be imported as names of their package.
COMPILED = {"graphffi._core"}


def modules(package: str, folder: Path) -> dict[str, str]:
    """The text of each module of a package; a folder has the name of its `__init__`."""
    found = {}
    for file in sorted(folder.rglob("*.py")):
        parts = (package, *file.relative_to(folder).with_suffix("").parts)
        found[".".join(parts)] = file.read_text()
    return found


def imported(module: str, text: str) -> Iterator[tuple[str, ...]]:
    """The dotted names that a module imports, anywhere; of `from a import b`, ``a.b`` or ``a``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join((*above, *filter(None, [node.module])))
            yield from ((f"{base}.{alias.name}", base) for alias in node.names)


def circle(texts: Mapping[str, str]) -> list[str]:
    """The modules of one circle of imports, the first one last again; empty without a circle."""
    known = {name.removesuffix(".__init__") for name in texts} | COMPILED
    graph = {}
    for name, text in texts.items():
        own = name.removesuffix(".__init__")
        meant = [next((n for n in names if n in known), own) for names in imported(name, text)]
        graph[own] = {other for other in meant if other != own}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_one_another_in_a_circle(package: str) -> None:
    texts = modules(package, PACKAGES[package])
    assert texts, f"no modules in {PACKAGES[package]}: has the layout changed?"
    assert not circle(texts)


@pytest.mark.parametrize(
    "line",
    [
        "import p.b",
        "import p.b as b",
        "from p import b",
        "from p.b import B",
        "from . import b",
        "from .b import B",
        "def f():\n  from p.b import B",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from p.b import B",
        "from p import _C",  # runs the package, which imports this module
    ],
)
def test_the_guard_sees_a_circle(line: str) -> None:
    texts = {"p.__init__": "from p.a import A", "p.a": line, "p.b": "from p.a import A"}
    assert circle(texts)


@pytest.mark.parametrize("line", ["import p._C as _C", "from p._C import f", "import torch", ""])
def test_the_guard_takes_modules_in_an_order(line: str) -> None:
    texts = {"p.__init__": "from p.a import A", "p.a": line, "p.b": "from .a import A"}
    assert not circle(texts)
