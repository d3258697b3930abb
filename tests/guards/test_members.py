# SPDX-License-Identifier: Apache-2.0
"""Members of frameworks' private objects and classes: the plugins' tables have all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import graphffi_jax
import graphffi_torch
from graphffi_jax._private_names import MEMBERS as JAX_MEMBERS
from graphffi_jax._private_names import PRIVATE_NAMES
from graphffi_torch._private_names import MEMBERS, TABLE, is_there
from tests.guards.test_layering import Spelled, aliases, attribute_chains, is_private

#: The tables, each with the files of its plugin.
SOURCES: list[tuple[Any, list[Path]]] = [
    (rows, sorted(Path(str(plugin.__file__)).parent.rglob("*.py")))
    for rows, plugin in ((MEMBERS, graphffi_torch), (JAX_MEMBERS, graphffi_jax))
]
#: Objects that are known by their module's name, wherever they are used.
OBJECTS = {"torch._inductor.virtualized.V"}
NODE = "torch.SymInt.node"
KNOWN = {(file, row.name) for row in TABLE for file in row.files}
KNOWN |= {(row.file, row.name) for row in PRIVATE_NAMES}


def base_of(node: ast.ClassDef, tree: ast.AST) -> str | None:
    """The private class that a class is derived from, if it is."""
    classes = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    for base in map(ast.unparse, node.bases):
        if base in classes:
            return base_of(classes[base], tree)
        first, _, rest = base.partition(".")
        name = ".".join(filter(None, (aliases(tree).get(first, first), rest)))
        if is_private(name):
            return name
    return None


def own_names(tree: ast.AST, base: str) -> set[str]:
    """What classes that are derived from `base` define, and their objects have of them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and base_of(node, tree) == base:
            for child in ast.walk(node):
                if isinstance(child, ast.FunctionDef):
                    found.add(child.name)
                elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    found.add(child.id)
                elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                    found.add(child.attr)
    return found


def inherited(tree: ast.AST) -> Iterator[str]:
    """The members of private classes that classes derived from them use or define anew."""
    for node in ast.walk(tree):
        base = base_of(node, tree) if isinstance(node, ast.ClassDef) else None
        if base is None:
            continue
        own = own_names(tree, base)
        for child in ast.walk(node):
            if isinstance(child, ast.Attribute):
                owner, _, rest = ast.unparse(child).partition(".")
                if owner in ("self", "cls", "super()") and rest.partition(".")[0] not in own:
                    yield f"{base}.{rest}"
        yield from (f"{base}.{name}" for name in own if is_there(f"{base}.{name}"))


def used(tree: ast.AST, rows: Sequence[Any]) -> set[str]:
    """The members that a file uses of what its rows name, of `OBJECTS`, and of its classes' bases.

    Without those of Python's own objects. Any ``x.node`` is the node of a symbol.
    """
    objects = OBJECTS | {row.of for row in rows}
    chains = set(attribute_chains(tree))
    symbols = {f"{NODE}.{c.partition('.node.')[2]}" for c in chains if ".node." in c}
    found = {c for c in chains if any(c.startswith(f"{o}.") for o in objects)}
    found |= {*symbols, *inherited(tree)}
    return {n for n in found if not is_pythons(n.rpartition(".")[2])}


def is_pythons(name: str) -> bool:
    """True for what all objects or exceptions have."""
    return hasattr(Exception, name) and name != "__dict__"


def covers(known: str, name: str) -> bool:
    """True if a name is a known one, on the way to it, or of what it gives."""
    return f"{name}.".startswith(f"{known}.") or f"{known}.".startswith(f"{name}.")


def violations(file: str, text: str, members: Any = MEMBERS) -> list[str]:
    """The members that a file uses and that stand in no table."""
    tree = Spelled().visit(ast.parse(text))
    rows = [row for row in members if row.file in ("*", file)]
    known = [f"{row.of}.{name}" for row in rows for name in row.names]
    known += [name for other, name in KNOWN if other == file and name not in OBJECTS]
    return sorted(n for n in used(tree, rows) if not any(covers(k, n) for k in known))


def name_of(value: Any) -> str:
    """For a parameter of a test: that of a file, or of an object."""
    return str(getattr(value, "name", getattr(value, "of", "")))


@pytest.mark.parametrize(
    ("path", "rows"), [(path, rows) for rows, paths in SOURCES for path in paths], ids=name_of
)
def test_members_of_private_objects_stand_in_the_table(path: Path, rows: Any) -> None:
    assert not violations(path.name, path.read_text(), rows)


@pytest.mark.parametrize(
    ("row", "paths"), [(row, paths) for rows, paths in SOURCES for row in rows], ids=name_of
)
def test_the_table_of_members_has_no_name_too_many(row: Any, paths: list[Path]) -> None:
    files = [path for path in paths if path.match(row.file)]
    trees = [Spelled().visit(ast.parse(file.read_text())) for file in files]
    found = {name for tree in trees for name in used(tree, [row])}
    found |= {f"{row.of}.{name}" for tree in trees for name in own_names(tree, row.of)}
    unused = [n for n in row.names if not any(f"{f}.".startswith(f"{row.of}.{n}.") for f in found)]
    assert not unused


INDUCTOR = "from torch._inductor import ir\nfrom torch._inductor.virtualized import V\n"


@pytest.mark.parametrize(
    "line",
    [
        "def f(size): return size.node.wrap_int",
        "V.graph.buffers",
        "getattr(V.graph, 'buffers', None)",
        "graph = V.graph\ngraph.buffers",
        "class A(ir.FallbackKernel):\n  def f(self): return self.kwargs",
        "class A(ir.FallbackKernel): pass\nclass B(A):\n  def f(self): return super().kwargs",
        "class A(ir.FallbackKernel):\n  def get_mutation_names(self): return []",
    ],
)
def test_the_guard_sees_a_member_that_stands_in_no_table(line: str) -> None:
    assert violations("inductor.py", INDUCTOR + line)
    assert not violations("inductor.py", INDUCTOR + "V.graph.env\nV.graph.current_node.meta")


def test_the_guard_sees_a_member_of_a_parameter() -> None:
    assert violations("part.py", "def f(shape): shape.tuple_shapes", JAX_MEMBERS)
    assert violations("dynamo_float.py", "def f(output): output.guards")
