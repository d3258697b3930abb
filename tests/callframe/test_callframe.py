# SPDX-License-Identifier: Apache-2.0
"""Plans and call frames, tested from C++ under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import graphffi

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES = [
    (source.stem, case)
    for source in sorted((HERE / "cpp").glob("*.cc"))
    for case in re.findall(r"^TEST\((\w+)\)", source.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the test programs, linked with the runtime in use."""
    folder = tmp_path_factory.mktemp("callframe")
    runtime = Path(graphffi.runtime_info().path)
    flags = ["-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags += [f"-I{ROOT}/csrc/include", f"-I{ROOT}/csrc"]
    library = [str(runtime), f"-Wl,-rpath,{runtime.parent}", "-pthread"]
    units = [str(path) for path in sorted((ROOT / "csrc" / "callframe").glob("*.cc"))]
    for source in (HERE / "cpp").glob("*.cc"):
        command = ["g++", *flags, str(source), *units, *library, "-o", str(folder / source.stem)]
        subprocess.run(command, check=True)
    return folder


@pytest.mark.parametrize(("program", "case"), CASES, ids=[case for _, case in CASES])
def test_callframe(programs: Path, program: str, case: str) -> None:
    result = subprocess.run([str(programs / program), case], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_programs_hold_cases() -> None:
    assert {program for program, _ in CASES} == {"call_frame_test", "plan_test"}
    assert len(CASES) > 20
