# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/versions.md about GPUs from result files of `make test-gpu`.

    python tests/gpu_table.py build/gpu.xml [...] [--write docs/versions.md]

Rows of other machines, packages and runtimes stay.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from xml.etree import ElementTree

from sections import read_section, write_section

TITLE = "On a GPU"
HEAD = f"""## {TITLE}

`make test-gpu` runs `tests/gpu` with the packages of a machine that has a GPU, and leaves a result
file, of which `python tests/gpu_table.py build/gpu.xml --write docs/versions.md` makes a row:

| GPU | packages | runtime | day | tests | skipped, because |
|---|---|---|---|---|---|
"""


def read_row(path: Path) -> str:
    """The row of a result file in JUnit's format.

    Raises:
        ValueError: The file has no counts, or does not say which GPU ran the tests.
    """
    suite = ElementTree.parse(path).getroot().find("testsuite")
    if suite is None:
        raise ValueError(f"gpu_table: {path}: expected a testsuite, got none")
    said = {p.get("name"): p.get("value") or "" for p in suite.iter("property")}
    missing = {"gpu", "packages", "runtime"} - said.keys()
    if missing:
        raise ValueError(
            f"gpu_table: {path}: expected properties, got no {sorted(missing)}; run the tests in "
            "one process, since workers of pytest-xdist write none"
        )
    day = datetime.datetime.fromisoformat(suite.attrib["timestamp"]).date().isoformat()
    skipped, failed, errors = (int(suite.attrib[k]) for k in ("skipped", "failures", "errors"))
    passed = int(suite.attrib["tests"]) - skipped - failed - errors
    counts = {"passed": passed, "failed": failed, "errors": errors, "skipped": skipped}
    shown = ", ".join(f"{n} {what}" for what, n in counts.items() if n or what == "passed")
    reasons = dict.fromkeys(skip.get("message", "") for skip in suite.iter("skipped"))
    cells = [said["gpu"], said["packages"], said["runtime"], day, shown, "; ".join(reasons)]
    return f"| {' | '.join(cells)} |"


def key_of(row: str) -> tuple[str, ...]:
    """The cells that tell runs apart: GPU, packages, runtime."""
    return tuple(cell.strip() for cell in row.split("|")[1:4])


def write_rows(path: Path, rows: list[str]) -> None:
    """Writes the rows into the page, in the place of earlier ones of the same machines."""
    lines = read_section(path, TITLE).splitlines()
    kept = [line for line in lines if line.startswith("| ") and not line.startswith("| GPU |")]
    known = {key_of(row): row for row in [*kept, *rows]}
    write_section(path, HEAD + "\n".join(known.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path, help="files that `make test-gpu` left")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    rows = [read_row(path) for path in options.results]
    if options.write:
        write_rows(options.write, rows)
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
