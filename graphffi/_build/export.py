# SPDX-License-Identifier: Apache-2.0
"""One library of a module and all that it imports."""

from __future__ import annotations

import io
import itertools
import os
import shlex
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .. import _core
from .._values.module import Module, loaded_module, origin_of
from .._values.runtime import runtime_info
from .config import include_path
from .toolchain import find_compiler, output_of

_THIS_LIBRARY: Final = "_lib"
_LIBRARY_KIND: Final = "graphffi_library"
_TREE_SYMBOL: Final = b"__tvm_ffi__library_bin"
_SERIALIZABLE: Final = 1
_EXPORTABLE: Final = 4
_LOADER: Final = Path(__file__).with_name("embedded_library.c")
_ASSEMBLY: Final = """\
.section .rodata
.balign 16
.global {symbol}
.type {symbol}, %object
.size {symbol}, {size}
{symbol}:
.incbin "{path}"
.section .note.GNU-stack,"",%progbits
"""


@dataclass
class _Node:
    """A module of the tree: its kind, what its loader gets, which nodes it imports."""

    kind: str
    content: bytes
    imports: list[int] = field(default_factory=list)


def write_library(module: Module, path: str | os.PathLike[str]) -> None:
    """Do what `export_library` says."""
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, so that it can be put in its place at once: processes may have it mapped.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".graphffi-") as name:
        folder = Path(name)
        nodes, objects = _read_tree(module, folder)
        (folder / "tree.bin").write_bytes(_pack(nodes))
        linked = folder / "linked.so"
        _link(folder, nodes, objects, linked)
        linked.replace(target)


def _read_tree(root: Module, folder: Path) -> tuple[list[_Node], list[Path]]:
    """Return the nodes, the root first, and the object files that the library is linked of."""
    nodes: list[_Node] = []
    objects: list[Path] = []
    places: dict[_core.Object, int] = {}
    linked: int | None = None  # the node of the library itself, which is all linked modules
    modules = [root]
    for module in modules:  # grows meanwhile
        if module in places:
            continue
        if _is_linked(module):
            objects.append(folder / f"{len(objects)}.o")
            module.write_to_file(objects[-1], "o")
            if linked is None:
                linked = len(nodes)
                nodes.append(_Node(_THIS_LIBRARY, b""))
            places[module] = linked
        else:
            places[module] = len(nodes)
            nodes.append(_save(module))
        modules.extend(module.imports)
    for module in modules:
        place = places[module]
        for imported in module.imports:
            child = places[imported]
            if child != place and child not in nodes[place].imports:
                nodes[place].imports.append(child)
    _check_cycles(nodes)
    return nodes, objects


def _is_linked(module: Module) -> bool:
    return bool(module.property_mask & _EXPORTABLE) and "o" in module.write_formats


def _save(module: Module) -> _Node:
    origin = origin_of(module)
    if origin is not None:
        # The tree that a library brings along is part of the new one already: hidden from the
        # loader by its name, which is there once, in the table of the names of symbols.
        content = _code(*origin)
        return _Node(
            _LIBRARY_KIND, content.replace(_TREE_SYMBOL + b"\0", b"_" * len(_TREE_SYMBOL) + b"\0")
        )
    if module.kind != "library" and module.property_mask & _SERIALIZABLE:
        return _Node(module.kind, module.save_to_bytes())
    raise TypeError(
        f"graphffi.cpp.export_library: module of kind {module.kind!r}: expected one that was "
        "loaded from a file, or can be saved, got one that can't be; implement SaveToBytes"
    )


def _code(root: Module, file: str, way: Sequence[int]) -> bytes:
    """Return the file of a library: one that was loaded, or one that is embedded in it.

    Raises:
        RuntimeError: If another library has taken the file's place since.
    """
    if loaded_module(file) != root:
        raise RuntimeError(
            f"graphffi.cpp.export_library: {file!r}: expected the file that the module was loaded "
            "from, got a newer one; load it again with graphffi.load_module"
        )
    nodes = _unpack(file)
    place = 0
    for index in way:
        place = nodes[place].imports[index]
    return nodes[place].content or Path(file).read_bytes()


def _unpack(file: str) -> list[_Node]:
    """Return the tree in a library that is loaded, and was checked then."""
    content = io.BytesIO(_core.embedded_modules(file))
    if not content.getbuffer():
        return [_Node(_THIS_LIBRARY, b"")]

    def number() -> int:
        value: int = struct.unpack("<Q", content.read(8))[0]
        return value

    rows = [number() for _ in range(number())]
    children = [number() for _ in range(number())]
    nodes = []
    for begin, end in itertools.pairwise(rows):
        kind = content.read(number()).decode()
        text = b"" if kind == _THIS_LIBRARY else content.read(number())
        nodes.append(_Node(kind, text, children[begin:end]))
    return nodes


def _check_cycles(nodes: Sequence[_Node]) -> None:
    done: set[int] = set()
    while len(done) < len(nodes):
        free = {
            i for i, node in enumerate(nodes) if i not in done and done.issuperset(node.imports)
        }
        if not free:
            raise ValueError(
                "graphffi.cpp.export_library: expected compiled modules below no module that is "
                "not compiled, got one; one library has all compiled modules in one place of its "
                "tree"
            )
        done |= free


def _pack(nodes: Sequence[_Node]) -> bytes:
    """Return what runtimes read: see csrc/runtime/modules/library_bin.cc."""
    rows = [0]
    children: list[int] = []
    for node in nodes:
        children.extend(node.imports)
        rows.append(len(children))
    parts = [_numbers(rows), _numbers(children)]
    for node in nodes:
        parts.append(_text(node.kind.encode()))
        if node.kind != _THIS_LIBRARY:
            parts.append(_text(node.content))
    return _text(b"".join(parts))


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers) + 1}Q", len(numbers), *numbers)


def _text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def _link(folder: Path, nodes: Sequence[_Node], objects: Sequence[Path], output: Path) -> None:
    tree = folder / "tree.bin"
    assembly = folder / "tree.S"
    symbol = _TREE_SYMBOL.decode()
    assembly.write_text(_ASSEMBLY.format(symbol=symbol, size=tree.stat().st_size, path=tree.name))
    command = [*find_compiler("CC"), "-shared", "-fPIC", "-O1"]
    # Functions of the library may be registered for the rest of the process.
    command += ["-Wl,-z,nodelete", "-o", str(output), str(assembly), *map(str, objects)]
    if any(node.kind == _LIBRARY_KIND for node in nodes):
        command += ["-std=c11", f"-I{include_path()}", str(_LOADER), runtime_info().path]
    result = output_of(command, cwd=folder)
    if result.returncode != 0:
        raise RuntimeError(
            f"graphffi.cpp.export_library: {command[0]} failed with status {result.returncode}\n"
            f"{shlex.join(command)}\n{result.stderr}{result.stdout}"
        )
