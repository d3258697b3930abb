# SPDX-License-Identifier: Apache-2.0
"""The kernel-author headers as the cases of cpp/header_*.cc use them, on every runtime.

Each case is a process of its own. `make sanitize` runs them with sanitizers, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain import HERE, RUNTIMES, Toolchain, cases_of

pytestmark = pytest.mark.slow

SOURCES = sorted((HERE / "cpp").glob("header_*_test.cc"))
CASES = [(source, case) for source in SOURCES for case in cases_of(source)]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_case(toolchain: Toolchain, source: Path, case: str, runtime: str) -> None:
    toolchain.run(toolchain.program(source), case, runtime=runtime)


def test_there_are_cases() -> None:
    assert len(SOURCES) >= 4
    assert len(CASES) > 40
