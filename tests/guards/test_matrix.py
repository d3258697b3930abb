# SPDX-License-Identifier: Apache-2.0
"""The table in docs/versions.md is what tests/matrix.py wrote there, from copies of the tree."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hidden_names import NEED_NAMES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "versions.md"


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tests")
    return importlib.import_module("matrix")


def test_the_document_has_rows_of_known_releases_only(matrix: Any, tmp_path: Path) -> None:
    path = tmp_path / "versions.md"
    path.write_text(DOCUMENT.read_text())
    matrix.write_table(path, {})
    assert path.read_text() == DOCUMENT.read_text()


def test_tests_that_need_private_names_are_there() -> None:
    for file, names in NEED_NAMES.items():
        text = "".join(path.read_text() for path in ROOT.glob(f"tests/*/{file}"))
        missing = [n for n in names if f"def test_{n.partition('[')[0]}(" not in text]
        assert not missing, file


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("..s [100%]\n2 passed, 1 skipped in 3.45s\n", "2 passed, 1 skipped"),
        ("1 failed, 2 passed, 3 warnings in 71.20s (0:01:11)\n", "1 failed, 2 passed"),
        (
            "5 passed in 0.10s\nnanobind: leaked 4 instances!\n - ... skipped remainder\n",
            "5 passed",
        ),
        ("1 error in 0.02s", "1 error"),
        ("ImportError: 3 passed in vain\n", ""),
        ("", ""),
    ],
)
def test_pytests_summary_is_found(matrix: Any, output: str, counts: str) -> None:
    assert matrix.counts_of(output) == counts


def test_new_rows_leave_those_of_other_releases(matrix: Any, tmp_path: Path) -> None:
    path = tmp_path / "versions.md"
    first, second = (release.title for release in matrix.RELEASES[:2])
    matrix.write_table(path, {second: f"| {second} | old |"})
    matrix.write_table(path, {first: f"| {first} | new |"})
    assert path.read_text() == f"{matrix.HEAD}| {first} | new |\n| {second} | old |\n"


def test_a_missing_python_is_named_before_anything_is_tested(
    matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    release = matrix.torch_release("1.0", python="3.99")
    message = (
        "expected python3.99 on the PATH or among pyenv's, got none; install it, or name releases "
        "for other"
    )
    with pytest.raises(SystemExit, match=message):
        matrix.find_pythons([release])


def test_the_python_of_forky_is_found(
    matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["pythons"], "FORKY", tmp_path)
    python = tmp_path / "usr/bin/python3.99-outside"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    release = matrix.in_forky(matrix.torch_release("1.0"), "tests/core")
    assert (release.name, release.python) == ("torch-1.0-forky", "3.14")
    assert release.tests == ("tests/core", "tests/torch_plugin")
    pythons = matrix.find_pythons([matrix.torch_release("1.0", python="3.99")])
    assert pythons == {"3.99": str(python)}


def test_a_failing_program_is_shown_with_its_arguments(matrix: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"expected exit status 0, got 3 from .* raise SystemExit"):
        matrix.must_run(sys.executable, "-c", "raise SystemExit(3)", cwd=tmp_path)


def test_copies_hold_what_the_tree_holds_and_what_was_built(
    matrix: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    tree.mkdir()
    subprocess.run(["git", "init", "--quiet", tree], check=True)
    for name in (".gitignore", "changed.py", "kept.py", "deleted.py", "ignored.so"):
        (tree / name).write_text("*.so\n")
    subprocess.run(["git", "add", "changed.py", "deleted.py"], cwd=tree, check=True)
    monkeypatch.setattr(matrix, "ROOT", tree)
    matrix.copy_sources(copy)
    (copy / "built.so").touch()
    (tree / "changed.py").write_text("changed")
    (tree / "deleted.py").unlink()
    matrix.copy_sources(copy)
    copied = {path.name: path.read_text() for path in copy.iterdir()}
    unchanged = dict.fromkeys((".gitignore", "kept.py"), "*.so\n")
    assert copied == {**unchanged, "changed.py": "changed", "built.so": ""}
