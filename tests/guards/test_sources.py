# SPDX-License-Identifier: Apache-2.0
"""What every source file has, and has not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "csrc graphffi plugins tests examples benchmarks docs requirements .ci".split()
SUFFIXES = {".py", ".pyi", ".h", ".cc", ".c", ".cu", ".toml", ".sh", ".map"}
NAMES = {"CMakeLists.txt", "Makefile", "run"}
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Folders that exist on somebody's machine only.
MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:work|tmp|root|Users|home/\w+)/")
MAX_LINES = 600  # a file is split, or a reason found, from 400 on


def files(*suffixes: str) -> Iterator[Path]:
    """The project's text files, sources and others, without what was built."""
    found = [ROOT / name for name in ("setup.py", "pyproject.toml", "CMakeLists.txt", "Makefile")]
    found += [f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*")) if f.is_file()]
    found += sorted(ROOT.glob("*.md"))
    for file in found:
        is_text = file.suffix in SUFFIXES | set(suffixes) or file.name in NAMES
        if is_text and "__pycache__" not in file.parts:
            yield file


def has_licence_line(text: str) -> bool:
    """Whether one of the first two lines (a script's first is ``#!``) names the licence."""
    return any(SPDX in line for line in text.splitlines()[:2])


def machine_paths(text: str) -> list[str]:
    """Lines that name a path of somebody's machine."""
    return [line.strip() for line in text.splitlines() if MACHINE_PATH.search(line)]


def test_every_source_names_its_licence() -> None:
    missing = [str(f.relative_to(ROOT)) for f in files() if not has_licence_line(f.read_text())]
    assert not missing


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = {str(f.relative_to(ROOT)): machine_paths(f.read_text()) for f in files(".md", ".txt")}
    found.pop(str(Path(__file__).relative_to(ROOT)))
    assert not {name: lines for name, lines in found.items() if lines}


def test_files_are_short_enough_to_review() -> None:
    lengths = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in files()}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}


@pytest.mark.parametrize("text", ["", "# text\n", "#!/bin/sh\n# text\n# " + SPDX])
def test_the_guard_sees_a_missing_licence_line(text: str) -> None:
    assert not has_licence_line(text)


@pytest.mark.parametrize("path", ["/work/x", "/home/somebody/x", "/tmp/x", "/root/x"])
def test_the_guard_sees_a_path(path: str) -> None:
    assert machine_paths(f"open('{path}')")
    assert not machine_paths(f"https://example.org{path} $PWD{path}")
