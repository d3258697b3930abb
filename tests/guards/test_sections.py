# SPDX-License-Identifier: Apache-2.0
"""Programs that write a section of a page leave the other sections of it."""

from __future__ import annotations

from pathlib import Path

from tests.sections import read_section, write_section

PAGE = "# Page\n\nText.\n\n## One\n\n| a |\n\n## Two\n\n| b |\n"


def test_a_section_takes_the_place_of_its_former_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert read_section(page, "One") == "## One\n\n| a |\n\n"
    write_section(page, read_section(page, "One"))
    write_section(page, read_section(page, "Two"))
    assert page.read_text() == PAGE
    write_section(page, "## One\n\n| c |")
    assert page.read_text() == PAGE.replace("| a |", "| c |")


def test_a_new_section_comes_last(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert read_section(page, "Three") == ""
    write_section(page, "## Three\n\n| c |")
    assert page.read_text() == PAGE + "\n## Three\n\n| c |\n"
