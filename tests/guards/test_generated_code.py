# SPDX-License-Identifier: Apache-2.0
"""No code runs text as Python, but for what is listed here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN_TEXT = {"eval", "exec"}
ALLOWED = {
    # Annotations of ops, which are the user's own text.
    "graphffi/_definition/signature.py": ["eval"],
    # Measured there: Dynamo traces no other form as fast.
    "plugins/torch/graphffi_torch/_compiled/traced_call.py": ["exec"],
}


def runs_text(text: str) -> list[str]:
    """The functions that run text as Python, of those that code mentions: called or not."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in RUN_TEXT:
            found.append(node.id)
        is_builtin = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if is_builtin and node.value.id == "builtins" and node.attr in RUN_TEXT:
            found.append(node.attr)
    return found


def test_no_text_runs_as_python() -> None:
    files = [path for folder in ("graphffi", "plugins") for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): runs_text(path.read_text()) for path in files}
    assert {name: names for name, names in found.items() if names} == ALLOWED


@pytest.mark.parametrize(
    "line", ["eval(x)", "exec(x)", "run = eval", "import builtins; builtins.exec(x)"]
)
def test_the_guard_sees_what_runs_text(line: str) -> None:
    assert runs_text(line)


@pytest.mark.parametrize("line", ["re.compile(x)", "torch.compile(x)", "loader.exec_module(x)"])
def test_the_guard_takes_what_runs_none(line: str) -> None:
    assert not runs_text(line)
