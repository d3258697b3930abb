# SPDX-License-Identifier: Apache-2.0
"""What tables of docs/ list is what the code has: variables, texts of errors, names, commands."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("csrc", "graphffi", "plugins", "tests", "docs", "examples", "benchmarks")
PACKAGES = {
    "graphffi": ROOT / "graphffi",
    "graphffi.cpp": ROOT / "graphffi" / "cpp.py",
    "graphffi_torch": ROOT / "plugins" / "torch" / "graphffi_torch",
    "graphffi_jax": ROOT / "plugins" / "jax" / "graphffi_jax",
    "graphffi_tvm": ROOT / "plugins" / "tvm" / "graphffi_tvm",
}


def sources(*suffixes: str) -> Iterator[Path]:
    for folder in ("graphffi", "plugins", "csrc"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in suffixes and not {"lib", "_lib"} & set(path.parts):
                yield path
    yield ROOT / "setup.py"


def shown_names(page: str) -> set[str]:
    """The names of the rows of a page's tables."""
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_all_environment_variables_are_in_the_table() -> None:
    read = {
        name
        for path in sources(".py", ".cc", ".h")
        for name in re.findall(r"""["'](GRAPHFFI_[A-Z_]+)["']""", path.read_text())
    }
    shown = {n for n in shown_names("reference/environment.md") if n.startswith("GRAPHFFI_")}
    assert shown == read


def named_paths(page: Path) -> set[str]:
    """The files and folders that a page names; of `file.{h,cc}`, both."""
    found = set()
    for name in re.findall(r"`([\w./{},-]+)`", page.read_text()):
        start, _, rest = name.partition("{")
        inner, _, end = rest.partition("}")
        if "/" in name or name.endswith((".py", ".h", ".cc", ".cu")):
            found |= {start + one + end for one in inner.split(",")}
    return found


def is_there(name: str) -> bool:
    """True if a path of the tree ends so, or commands make it."""
    return (
        name.startswith("build/")
        or any(ROOT.glob(name))
        or any(True for f in FOLDERS for _ in (ROOT / f).rglob(name))
    )


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_that_a_page_for_contributors_names_exist(page: str) -> None:
    assert sorted(name for name in named_paths(ROOT / page) if not is_there(name)) == []


def test_the_guard_sees_a_path_that_is_gone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`csrc/call/gone.h`, `call/plan.{h,gone}`, `gone.py`, `plan.h`, `gone`, `a.b`")
    names = named_paths(page)
    assert {n for n in names if not is_there(n)} == {
        "csrc/call/gone.h",
        "call/plan.gone",
        "gone.py",
    }


@cache
def texts() -> str:
    """The texts in the sources, … for what is put into them; a piece of several lines is one."""
    found = []
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
                found.append("".join(map(str, parts)))
    for path in sources(".cc", ".h"):
        code = re.sub(r'"\s*\n?\s*"', "", path.read_text())
        found += re.findall(r'"((?:[^"\\]|\\.)*)"', code)
    return re.sub(r"\{[a-z_]+\}", "…", "\n".join(found))


ERRORS = re.findall(r"^> ([^`\n].*)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("error", [e for e in ERRORS if not e.startswith("jaxlib's")])
def test_errors_are_raised_as_shown(error: str) -> None:
    pieces = [piece for piece in re.split(r"'?…'?", error) if re.search(r"\w", piece)]
    assert pieces
    missing = [piece for piece in pieces if piece.strip(" ,:;") not in texts()]
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
def test_all_public_names_are_in_the_reference(package: str) -> None:
    path = PACKAGES[package]
    tree = ast.parse((path if path.suffix else path / "__init__.py").read_text())
    [public] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    shown = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    names = {f"{package}.{name}" for name in public} - {"graphffi.cpp"}
    assert sorted(n for n in names if f"::: {n}\n" not in shown) == []


def test_all_commands_are_in_the_table() -> None:
    commands = (ROOT / "graphffi/_command/command.py").read_text()
    defined = set(re.findall(r'\badd\("([\w-]+)"', commands))
    shown = {name.split()[1] for name in shown_names("reference/command.md") if " " in name}
    assert shown == defined
