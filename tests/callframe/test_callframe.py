# SPDX-License-Identifier: Apache-2.0
"""Plans and call frames, tested from C++; `make sanitize` runs them with sanitizers, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain import ROOT, RUNTIMES, Toolchain, cases_of

SOURCES = sorted((Path(__file__).resolve().parent / "cpp").glob("*.cc"))
CASES = [(source, case) for source in SOURCES for case in cases_of(source)]
FOLDERS = ("callframe", "env", "kernels", "shapes")
UNITS = tuple(str(path) for f in FOLDERS for path in sorted((ROOT / "csrc" / f).glob("*.cc")))


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """Compiles the programs, each with the whole call frame."""
    return Toolchain(tmp_path_factory.mktemp("callframe"))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_callframe(toolchain: Toolchain, source: Path, case: str, runtime: str) -> None:
    program = toolchain.program(source, flags=(f"-I{ROOT}/csrc", *UNITS))
    toolchain.run(program, case, runtime=runtime)


def test_the_programs_hold_cases() -> None:
    assert {source.stem for source in SOURCES} == {
        "call_frame_test",
        "kernel_slot_test",
        "layout_test",
        "plan_test",
        "shape_program_test",
        "thread_test",
    }
    assert len(CASES) > 20
