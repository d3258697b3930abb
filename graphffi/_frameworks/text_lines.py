# SPDX-License-Identifier: Apache-2.0
"""Texts of calls in programs: a line with the format, then lines of a name and a value.

`csrc/call/text_lines.h` reads them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_ESCAPE: Final = r"\\(.)"


def write_lines(form: str, lines: Iterable[tuple[str, str]]) -> str:
    """The text with these lines."""
    escaped = ((name, value.replace("\\", r"\\").replace("\n", r"\n")) for name, value in lines)
    return "\n".join((form, *map(" ".join, escaped)))


def read_lines(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The format of a text, and its lines."""
    form, *lines = text.split("\n")
    found = (line.partition(" ") for line in lines)
    return form, tuple((name, re.sub(_ESCAPE, _unescaped, value)) for name, _, value in found)


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
