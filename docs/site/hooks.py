# SPDX-License-Identifier: Apache-2.0
"""What MkDocs does with the pages beyond Markdown.

README and the other texts of the root become pages. Links out of docs/ lead to pages that show the
files, or all files of a folder. Comments for the tests of pages are left out. The comment
`<!-- header: path -->` becomes what the header documents.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Texts of the root, and the pages that they are."""
LANGUAGES = {
    ".py": "python", ".cc": "cpp", ".h": "cpp", ".cu": "cpp", ".c": "c", ".toml": "toml",
    ".txt": "cmake", ".md": "markdown",
}  # fmt: skip
_FENCED = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_FOR_TESTS = re.compile(
    r"^<!-- (?:setup|file|not run|new process)(?:: [^\n]*?)?(?: -->|\n.*?^-->)\n",
    re.DOTALL | re.MULTILINE,
)
_HEADER = re.compile(r"^<!-- header: (\S+) -->$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Adds pages for the texts of the root, and for files and folders that pages link to."""
    for text, page in TEXTS.items():
        files.append(File.generated(config, page, content=(ROOT / text).read_text()))
    linked: set[str] = set()
    for page in [f for f in files if f.is_documentation_page()]:
        prose = _FENCED.sub("", page.content_string)
        linked |= {_resolve(page.src_uri, link[1]) for link in _LINK.finditer(prose)}
    for path in sorted(linked):
        if path not in TEXTS and not path.startswith("docs/") and (ROOT / path).exists():
            files.append(File.generated(config, f"source/{path}.md", content=_shown(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text as MkDocs is to read it."""
    text = _HEADER.sub(lambda found: _documented(found[1]), _FOR_TESTS.sub("", markdown))
    parts, end = [], 0
    for fence in _FENCED.finditer(text):
        parts += [_linked(text[end : fence.start()], page.file.src_uri), fence[0]]
        end = fence.end()
    return "".join(parts) + _linked(text[end:], page.file.src_uri)


def _repository_path(page: str) -> str:
    return next((text for text, name in TEXTS.items() if name == page), f"docs/{page}")


def _resolve(page: str, link: str) -> str:
    folder = posixpath.dirname(_repository_path(page))
    return posixpath.normpath(posixpath.join(folder, link))


def _linked(prose: str, page: str) -> str:
    """Prose whose links lead to pages of the site."""

    def replace(found: re.Match[str]) -> str:
        path = _resolve(page, found[1])
        if path in TEXTS:
            target = TEXTS[path]
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            target = f"source/{path}.md"
        return f"]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{found[2] or ''})"

    if page.startswith("source/"):
        return prose
    # In code of a table, code hosts want `\|`, and Python's Markdown `|`.
    plain = re.sub(r"`[^`\n]+`", lambda code: code[0].replace(r"\|", "|"), prose)
    return _LINK.sub(replace, plain)


def _shown(path: str) -> str:
    """A page with a file's text, or with those of all files of a folder."""
    whole = ROOT / path
    files = [whole] if whole.is_file() else sorted(whole.rglob("*"))
    text = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n"
    for file in files:
        if file.suffix in LANGUAGES and file.is_file() and file.stat().st_size:
            name = f"\n## {file.relative_to(whole)}\n" if file != whole else ""
            text += f"{name}\n`````{LANGUAGES[file.suffix]}\n{file.read_text().rstrip()}\n`````\n"
    return text


def _documented(header: str) -> str:
    """The declarations of a header that have documentation, each with it."""
    return "\n".join(
        f"```cpp\n{declaration}\n```\n\n{comment}\n"
        for comment, declaration in _declarations((ROOT / header).read_text().splitlines())
    )


def _declarations(lines: list[str]) -> Iterator[tuple[str, str]]:
    comment: list[str] = []
    declaration: list[str] = []
    is_private = False
    for line in lines:
        text = line.strip()
        if re.match(r"(inline )?namespace |\}  // namespace", text):
            is_private = text.startswith("namespace") and "detail" in text
        elif is_private:
            continue
        elif text.startswith("///"):
            comment.append(text[3:].removeprefix(" ").replace("\\throws", "Throws"))
        elif comment and text in ("", "public:", "private:"):
            comment.clear()
        elif comment:
            declaration.append(line)
            if re.search(r"[;{]|^#define", line):
                yield "\n".join(comment), _head(declaration)
                comment, declaration = [], []


def _head(declaration: list[str]) -> str:
    """A declaration without its body."""
    indent = len(declaration[0]) - len(declaration[0].lstrip())
    text = "\n".join(line[indent:] for line in declaration).rstrip(" \\")
    return re.sub(r"(?<=\))\s*:\s\w.*|\s*\{.*|\s+$", "", text, flags=re.DOTALL)
