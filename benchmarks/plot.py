# SPDX-License-Identifier: Apache-2.0
"""Results as bars in SVG: a picture for each group of cases, such as "torch eager"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import Any

WIDTH, LEFT, BAR = 680, 250, 300
"""The widths of a picture, of the names in it and of its longest bars, in pixels."""
_STYLE = """\
<style>
  text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #16202e; }
  .case { font-weight: 600; } .name { text-anchor: end; }
  .paper { fill: #f7f8fa; } .ours { fill: #2f9e63; } .others { fill: #9aa7b8; }
</style>"""


def group_of(case: str) -> str:
    """The group of a case: the text before the colon."""
    return case.partition(":")[0]


def file_name(group: str) -> str:
    """The name of the file of a group's picture."""
    return f"benchmark-{re.sub('[^a-z]+', '-', group.lower()).strip('-')}.svg"


def pictures(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The picture of each group, by the group's name."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(group_of(row["case"]), []).append(row)
    return {group: picture(group, members) for group, members in groups.items()}


def picture(group: str, rows: list[dict[str, Any]]) -> str:
    """One group: the bars of a case are as long as its medians, the longest ends at the right."""
    y, parts = 8, []
    for case, members in groupby(rows, key=lambda row: row["case"]):
        contenders = list(members)
        longest = max(row["median"] for row in contenders)
        parts.append(_text("case", 12, y + 14, case.partition(": ")[2] or case))
        y += 22
        for row in contenders:
            kind = "ours" if row["name"] == contenders[0]["name"] else "others"
            width = max(1, round(BAR * row["median"] / longest))
            parts.append(_text("name", LEFT - 8, y + 12, row["name"]))
            parts.append(
                f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width}" height="15" rx="2"/>'
            )
            value = f"{row['median']:,.4g}" if row["median"] < 1000 else f"{row['median']:,.0f}"
            parts.append(_text("value", LEFT + width + 6, y + 12, f"{value} {row['unit']}"))
            y += 19
        y += 8
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
            f'height="{y}" role="img" aria-label="{escape(group)}">',
            "<!-- SPDX-License-Identifier: Apache-2.0; written by benchmarks/plot.py -->",
            _STYLE,
            f'<rect class="paper" width="{WIDTH}" height="{y}" rx="8"/>',
            *parts,
            "</svg>\n",
        )
    )


def read_rows(document: str) -> list[dict[str, Any]]:
    """The rows of the tables in a document, with the fields that pictures need."""
    rows = []
    for case, table in re.findall(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)", document, re.MULTILINE):
        head, _, *lines = (line.strip("|\n ").split("|") for line in table.splitlines())
        for name, median, *_ in lines:
            number = float(median.replace(",", ""))
            rows.append(
                {"case": case, "unit": head[1].strip(), "name": name.strip(), "median": number}
            )
    return rows


def _text(kind: str, x: int, y: int, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
