# SPDX-License-Identifier: Apache-2.0
"""What README and docs/ show: every Python and shell block runs as printed."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from run_page import read_steps

from tests import warm_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = [p for p in PAGES if any(s.kind in ("python", "bash") for s in read_steps(p.read_text()))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_printed(page, tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "GRAPHFFI_RUNTIME"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    result = warm_python.run(
        [sys.executable, Path(__file__).with_name("run_page.py"), page, "0"],
        cwd=tmp_path,
        env=environment,
        modules=warm_python.MODULES if "import torch" in page.read_text() else (),
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
    assert result.stdout.endswith("-- the end\n")


def test_what_is_not_run_says_why():
    left_out = [
        step for page in PAGES for step in read_steps(page.read_text()) if step.kind == "not run"
    ]
    assert all(step.what for step in left_out)
    assert len(left_out) <= 12, [step.what for step in left_out]


def test_marks_are_read():
    page = (
        "<!-- setup\nx = 1\n-->\n```python\nassert x == 1\n```\n"
        "<!-- not run: needs a GPU -->\n```bash\nnvcc\n```\n"
        "<!-- file: a.c -->\n```c\nint a;\n```\n```c\nint b;\n```\n"
    )
    steps = [(step.kind, step.text, step.line, step.what) for step in read_steps(page)]
    assert steps == [
        ("setup", "x = 1\n", 2, ""),
        ("python", "assert x == 1\n", 5, ""),
        ("not run", "nvcc\n", 9, "needs a GPU"),
        ("file", "int a;\n", 13, "a.c"),
    ]
