# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels are made anew when what compilers read is another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphffi

from .test_cpp import PLAIN

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(tmp_path / "cache"))


def number_of(folder: Path, text: str = '#include "n.h"\n', **options: Any) -> int:
    source = folder / "k.cc"
    if not source.exists():
        source.write_text(f"{text}{PLAIN}")
    found: int = graphffi.cpp.load("k", [source], **options).number()
    return found


def test_a_header_that_is_found_earlier_is_seen(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "n.h").write_text("#define NUMBER 1\n")
    assert number_of(tmp_path, extra_include_paths=folders) == 1
    for number, folder in ((2, folders[0]), (3, tmp_path)):
        (folder / "n.h").write_text(f"#define NUMBER {number}\n")
        assert number_of(tmp_path, extra_include_paths=folders) == number


def test_variables_and_files_that_compilers_read_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "n.h").write_text(f"#define NUMBER {number}\n")
        monkeypatch.setenv("CPATH", str(tmp_path / str(number)))
        assert number_of(tmp_path) == number
    (tmp_path / "k.cc").unlink()
    for number in (3, 4):
        (tmp_path / "flags").write_text(f"-DNUMBER={number}")
        assert number_of(tmp_path, "", extra_cflags=[f"@{tmp_path}/flags"]) == number


def test_a_script_in_place_of_the_compiler_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "c++"
    for number in (1, 2):
        script.write_text(f'#!/bin/sh\nexec g++ -DNUMBER={number} "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("CXX", str(script))
        assert number_of(tmp_path, "") == number


def test_a_file_that_changes_while_it_is_compiled_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, script = tmp_path / "n.h", tmp_path / "c++"
    header.write_text("#define NUMBER 1\n")
    change = f"case \"$*\" in *-c*) echo '#define NUMBER 2' > {header};; esac"
    script.write_text(f'#!/bin/sh\ng++ "$@" || exit 1\n{change}\n')
    script.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("CXX", str(script))
        with pytest.raises(RuntimeError, match=r"n\.h: expected a file that stays as it is while"):
            number_of(tmp_path)
    assert number_of(tmp_path) == 2
