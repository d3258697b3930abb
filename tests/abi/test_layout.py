# SPDX-License-Identifier: Apache-2.0
"""The layouts that libraries built years apart rely on, in both languages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toolchain import HERE, INCLUDE

LANGUAGES = {"c": ("gcc", "-std=c11"), "c++": ("g++", "-std=c++17")}


def compiles(text: str, language: str) -> bool:
    """Whether a source text compiles without a warning."""
    compiler, standard = LANGUAGES[language]
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{INCLUDE}"]
    command = [compiler, standard, *flags, f"-I{HERE / 'cpp'}", "-x", language, "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True).returncode == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_size_and_offset_is_that_of_the_abi(language: str) -> None:
    assert compiles('#include "layout.h"\n', language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_assertions_can_fail(language: str) -> None:
    assert not compiles('#include "layout.h"\nSIZE(TVMFFIAny, 24);\n', language)
    assert not compiles('#include "layout.h"\nFIELD(TVMFFIAny, v_int64, 4, 8);\n', language)


def test_the_cpp_types_have_the_sizes_of_the_objects() -> None:
    assert compiles(Path(HERE / "cpp/layout_objects.cc").read_text(), "c++")
