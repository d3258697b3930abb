# SPDX-License-Identifier: Apache-2.0
"""Runs the Python and shell blocks of a page as printed, in order, in the current folder.

All Python blocks share one namespace. What a page takes for granted stands in comments that readers
do not see:

    <!-- not run: needs a GPU -->       the block below is counted, and left out
    <!-- file: kernels.cc -->           the block below is written to that file
    <!-- setup                          Python that runs before the block below
    x = 1
    -->
    <!-- setup: kernels.cc              a file that the page does not show
    ...
    -->
    <!-- new process -->                what comes begins with no names, and no ops
"""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PART = re.compile(
    r"^<!-- (?P<kind>setup|file|not run|new process)(?:: (?P<what>[^\n]*?))?"
    r"(?: -->\n|\n(?P<hidden>.*?)^-->\n)"
    r"|^(?P<indent> *)```(?P<language>[\w+-]*)\n(?P<block>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_RUN = ("python", "bash")


@dataclass(frozen=True)
class Step:
    """Something to do for a page.

    Attributes:
        kind: ``python``, ``bash``, ``file``, ``setup``, ``not run`` or ``new process``.
        text: Of the block.
        line: On which it starts.
        what: The name of the file, or why the block is not run.
    """

    kind: str
    text: str
    line: int
    what: str = ""


def read_steps(page: str) -> Iterator[Step]:
    """The steps of a page's text."""
    mark: tuple[str, str] | None = None
    for part in _PART.finditer(page):
        line = page[: part.start()].count("\n") + 2
        kind, what = part["kind"], part["what"] or ""
        if kind == "setup":
            yield Step("file" if what else "setup", part["hidden"], line, what)
        elif kind == "new process":
            yield Step(kind, "", line)
        elif kind:
            mark = kind, what
        elif mark is not None:
            yield Step(mark[0], part["block"], line, mark[1])
            mark = None
        elif part["language"] in _RUN:
            yield Step(part["language"], part["block"], line)


def run(path: Path, begin: int) -> None:
    """Runs the steps of a page from one on, to its end or to where another process goes on."""
    names: dict[str, object] = {"__name__": "__main__", "__file__": str(Path("page.py").absolute())}
    for number, step in list(enumerate(read_steps(path.read_text())))[begin:]:
        print(f"-- {path.name}:{step.line}: {step.kind} {step.what}", flush=True)
        if step.kind == "new process":
            os.execv(sys.executable, [sys.executable, __file__, str(path), str(number + 1)])
        elif step.kind == "file":
            Path(step.what).parent.mkdir(parents=True, exist_ok=True)
            Path(step.what).write_text(step.text)
        elif step.kind == "bash":
            subprocess.run(["bash", "-euo", "pipefail", "-c", step.text], check=True)
        elif step.kind != "not run":
            text, name = "\n" * (step.line - 1) + step.text, f"{path}:{step.line}"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), names)
    print("-- the end")


if __name__ == "__main__":
    sys.path.insert(0, "")
    run(Path(sys.argv[1]), int(sys.argv[2]))
