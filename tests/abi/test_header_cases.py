# SPDX-License-Identifier: Apache-2.0
"""The cases of cpp/header_*.cc, which use the kernel-author headers, on every runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain import HERE, RUNTIMES, Toolchain, cases_of

SOURCES = sorted((HERE / "cpp").glob("header_*_test.cc"))
CASES = [(source, case) for source in SOURCES for case in cases_of(source)]
# Exceptions leave through libraries without frame information: leaks are what it finds here.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_case(toolchain: Toolchain, source: Path, case: str, runtime: str) -> None:
    toolchain.run(toolchain.program(source, flags=SANITIZERS), case, runtime=runtime)


def test_there_are_cases() -> None:
    assert len(SOURCES) >= 4
    assert len(CASES) > 40
