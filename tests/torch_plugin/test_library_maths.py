# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors that libraries take from glibc in the place of Sleef."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest
import torch

from graphffi_torch._standalone import build as _standalone_build
from graphffi_torch._standalone.maths import maths_code

VECTORS = Path(torch.__file__).parent / "include/ATen/cpu/vec"


def names_in_headers() -> set[str]:
    """Those that torch's code for vectors calls; it calls none of `sincos`, which gives two."""
    texts = [path.read_text() for path in VECTORS.rglob("vec*.h")]
    names = {name for text in texts for name in re.findall(r"Sleef_[a-z]\w+", text)}
    return {n for n in names if re.search(r"[df](2|4|8|16)(_u\d+\w*)?\Z", n) and "sincos" not in n}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="glibc's names are those of x86-64")
def test_all_functions_that_torchs_headers_call_are_defined(tmp_path: Path) -> None:
    names = names_in_headers()
    assert {"Sleef_log1pf16_u10", "Sleef_expm1d4_u10", "Sleef_fmodf8", "Sleef_atan2d2_u10"} <= names
    source, made = tmp_path / "maths.cc", tmp_path / "maths.so"
    source.write_text(maths_code(names))
    command = ["g++", "-shared", "-fPIC", "-mavx512f", source, "-o", made, "-Wl,--no-undefined"]
    subprocess.run([*map(str, command), "-lm"], check=True)
    listed = subprocess.run(["nm", "-D", "--defined-only", made], capture_output=True, text=True)
    assert names == set(re.findall(r"Sleef_\w+", listed.stdout))


@pytest.mark.parametrize("name", ["Sleef_sincosf8_u10", "Sleef_expfx_u10", "Sleef_log1pf32_u10"])
def test_a_function_that_glibc_does_not_have_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"expected functions of glibc, got '{name}'"):
        maths_code({"memcpy", name, "Sleef_expf8_u10"})


def test_code_without_them_needs_no_file() -> None:
    assert maths_code({"memcpy", "aoti_torch_get_dim"}) == ""


@pytest.mark.parametrize(
    "text",
    [
        "ld: m.o: in function `f':\nm.cc:(.text+0x1): undefined reference to `first'\n"
        "m.cc:(.text+0x9): undefined reference to `second(int)'\nld: more undefined references to "
        "`first' follow",
        "ld.lld: error: undefined symbol: first\n>>> referenced by m.cc\n"
        "ld.lld: error: undefined symbol: second(int)\n",
    ],
)
def test_functions_that_nothing_defines_are_refused_by_name(text: str, tmp_path: Path) -> None:
    output = tmp_path / "errors"
    output.write_text(text)
    command = ["sh", "-c", f"cat {output} >&2; exit 1"]
    with pytest.raises(NotImplementedError, match=r"got calls of first, second\(int\); write the"):
        _standalone_build.run(command)
