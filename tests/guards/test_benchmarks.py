# SPDX-License-Identifier: Apache-2.0
"""The result in docs/benchmarks.md is what benchmarks/run.py wrote there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "benchmarks.md"
ROWS = [
    {"case": "a case", "unit": "ns", "name": name, "median": 1234.5, "ratio": ratio,
     "ratio_quartiles": [ratio, ratio]}
    for name, ratio in (("graphffi", 1.0), ("other", 0.25))
]  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))  # where it finds what it imports
    spec = importlib.util.spec_from_file_location("report", ROOT / "benchmarks" / "report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_document_has_a_place_for_the_result(report: Any) -> None:
    replaced = report.replace_result(DOCUMENT.read_text(), "the result\n")
    assert "## Method" in replaced
    assert f"{report.BEGIN}\n\nthe result\n\n{report.END}" in replaced
    assert report.replace_result(replaced, "the result\n") == replaced


def test_a_document_without_the_place_is_refused(report: Any) -> None:
    for text in ("", report.BEGIN, report.END + report.BEGIN, 2 * (report.BEGIN + report.END)):
        with pytest.raises(ValueError, match="once each and in this order"):
            report.replace_result(text, "")


def test_results_are_written_as_tables(report: Any, tmp_path: Path) -> None:
    path = tmp_path / "document.md"
    path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_result(path, {"python": "3.11"}, ROWS)
    text = path.read_text()
    picture = "![a case](images/benchmark-a-case.svg)"
    assert text.startswith(f"before\n{report.BEGIN}\n\npython 3.11\n\n{picture}\n\n**a case**\n")
    assert ">1,234 ns<" in (tmp_path / "images" / "benchmark-a-case.svg").read_text()
    assert "| graphffi | 1,234.5 |  |  |\n| other | 1,234.5 | 0.25 | 0.25 to 0.25 |\n" in text
    assert text.endswith(f"\n\n{report.END}\nafter\n")
    assert "old" not in text


def test_the_pictures_show_the_tables_of_the_document(report: Any) -> None:
    document = DOCUMENT.read_text()
    pictures = report.plot.pictures(report.plot.read_rows(document))
    for group, picture in pictures.items():
        file = DOCUMENT.parent / "images" / report.plot.file_name(group)
        assert file.read_text() == picture, (
            f"{file.name}: python benchmarks/report.py docs/benchmarks.md"
        )
        assert f"](images/{file.name})" in document
