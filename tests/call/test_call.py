# SPDX-License-Identifier: Apache-2.0
"""Plans and call frames, tested from C++; `make sanitize` runs them with sanitizers, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain import ROOT, RUNTIMES, Toolchain, cases_of

pytestmark = pytest.mark.slow

SOURCES = sorted((Path(__file__).resolve().parent / "cpp").glob("*.cc"))
CASES = [(source, case) for source in SOURCES for case in cases_of(source)]
FOLDERS = ("call", "env", "kernels", "observe", "shapes")
UNITS = [path for f in FOLDERS for path in sorted((ROOT / "csrc" / f).glob("*.cc"))]
INCLUDE_UNITS = f"-I{ROOT}/csrc"


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """Compiles the programs."""
    return Toolchain(tmp_path_factory.mktemp("call"))


@pytest.fixture(scope="session")
def call_frame(toolchain: Toolchain) -> Path:
    """The whole call frame, which all programs link."""
    return toolchain.unit(UNITS, flags=(INCLUDE_UNITS,))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_call(
    toolchain: Toolchain, call_frame: Path, source: Path, case: str, runtime: str
) -> None:
    program = toolchain.program(source, flags=(INCLUDE_UNITS, str(call_frame)))
    toolchain.run(program, case, runtime=runtime)


def test_the_programs_hold_cases() -> None:
    assert {source.stem for source in SOURCES} == {
        "call_frame_test",
        "kernel_slot_test",
        "layout_test",
        "placed_call_test",
        "plan_test",
        "shape_program_test",
        "thread_test",
    }
    assert len(CASES) > 20
