# SPDX-License-Identifier: Apache-2.0
"""Sections of a page that programs write: each begins with a line `## Title`."""

from __future__ import annotations

import re
from pathlib import Path


def read_section(path: Path, title: str) -> str:
    """A section, its title's line included; empty if the page has none of the title."""
    return next((text for text in _sections(path) if text.startswith(f"## {title}\n")), "")


def write_section(path: Path, section: str) -> None:
    """Puts a section in the place of the one that has its title, or behind the last one."""
    sections = _sections(path)
    title = section.partition("\n")[0]
    places = [i for i, text in enumerate(sections) if text.startswith(title + "\n")]
    place = places[0] if places else len(sections)
    sections[place : place + 1] = [section]
    path.write_text("\n\n".join(text.strip("\n") for text in sections) + "\n", encoding="utf-8")


def _sections(path: Path) -> list[str]:
    return re.split(r"^(?=## )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
