# SPDX-License-Identifier: Apache-2.0
"""The table of GPUs in docs/versions.md is made of result files of `make test-gpu`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "versions.md"
RESULT = """<testsuites><testsuite errors="0" failures="1" skipped="2" tests="5"
timestamp="2026-11-27T04:08:53.1+00:00"><properties>{}</properties>
<testcase><skipped message="needs two GPUs">at a line</skipped></testcase>
<testcase><skipped message="needs two GPUs">at another line</skipped></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def gpu_table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tests")
    return importlib.import_module("gpu_table")


def write_result(path: Path, gpu: str) -> Path:
    said = {"gpu": gpu, "packages": "torch 2", "runtime": "bundled"}
    properties = (f'<property name="{name}" value="{value}" />' for name, value in said.items())
    path.write_text(RESULT.format("".join(properties)))
    return path


def test_a_row_says_where_and_what_ran(gpu_table: Any, tmp_path: Path) -> None:
    path = write_result(tmp_path / "gpu.xml", "H100, driver 580")
    row = "| H100, driver 580 | torch 2 | bundled | 2026-11-27 | 2 passed, 1 failed, 2 skipped |"
    assert gpu_table.read_row(path) == f"{row} needs two GPUs |"


def test_rows_replace_those_of_the_same_machine_only(gpu_table: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(DOCUMENT.read_text())
    row = gpu_table.read_row(write_result(tmp_path / "gpu.xml", "H300"))
    for _ in range(2):
        gpu_table.write_rows(page, [row])
    added = [line for line in page.read_text().splitlines() if line not in DOCUMENT.read_text()]
    assert added == [row]


def test_the_document_is_what_the_program_writes(gpu_table: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(DOCUMENT.read_text())
    gpu_table.write_rows(page, [])
    assert page.read_text() == DOCUMENT.read_text()


def test_a_result_of_an_unknown_machine_is_refused(gpu_table: Any, tmp_path: Path) -> None:
    path = tmp_path / "gpu.xml"
    path.write_text(RESULT.format(""))
    with pytest.raises(ValueError, match=r"got no \['gpu', 'packages', 'runtime'\]; run the tests"):
        gpu_table.read_row(path)
    path.write_text("<testsuites />")
    with pytest.raises(ValueError, match="expected a testsuite, got none"):
        gpu_table.read_row(path)
