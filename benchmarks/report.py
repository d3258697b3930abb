# SPDX-License-Identifier: Apache-2.0
"""Results as Markdown tables and pictures, and the part of a document that contains them."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import plot

BEGIN = "<!-- begin of the result: written by benchmarks/run.py -->"
END = "<!-- end of the result -->"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows of one case; the first is graphffi's."""
    lines = [
        f"**{rows[0]['case']}**",
        "",
        f"| contender | {rows[0]['unit']} | graphffi / it | quartiles |",
        "|---|---:|---:|---|",
    ]
    for row in rows:
        low, high = row["ratio_quartiles"]
        is_first = row is rows[0]
        ratio, spread = (
            ("", "") if is_first else (f"{row['ratio']:.2f}", f"{low:.2f} to {high:.2f}")
        )
        lines.append(f"| {row['name']} | {row['median']:,.1f} | {ratio} | {spread} |")
    return "\n".join(lines) + "\n"


def machine_line(machine: dict[str, str]) -> str:
    """The machine and the versions, in one line."""
    return ", ".join(f"{name} {version}" for name, version in machine.items())


def replace_result(document: str, result: str) -> str:
    """Return the document with a new result between its marks.

    Raises:
        ValueError: If the document does not have both marks, once each and in order.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError(f"expected {BEGIN!r} and {END!r}, once each and in this order")
    return f"{before}{BEGIN}\n\n{result}\n{END}{after}"


def write_result(path: Path, machine: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Writes the results of a run into a document, and their pictures beside it."""
    tables = [table(list(case)) for _, case in groupby(rows, key=lambda row: row["case"])]
    shown = plot.read_rows("\n".join(tables))  # rounded, as in the tables
    pictures = [f"![{group}](images/{plot.file_name(group)})\n" for group in plot.pictures(shown)]
    parts = [machine_line(machine) + "\n", *pictures, *tables]
    path.write_text(replace_result(path.read_text(), "\n".join(parts)))
    write_pictures(path)


def write_pictures(path: Path) -> None:
    """Draws each group of a document's tables into images/ beside it."""
    (path.parent / "images").mkdir(exist_ok=True)
    for group, picture in plot.pictures(plot.read_rows(path.read_text())).items():
        (path.parent / "images" / plot.file_name(group)).write_text(picture)


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]))  # the document whose pictures to draw again
