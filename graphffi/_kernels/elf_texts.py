# SPDX-License-Identifier: Apache-2.0
"""Texts that a shared library exports as arrays of characters, read from its file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LITTLE_64: Final = b"\x7fELF\x02\x01"
_LOAD: Final = 1  # PT_LOAD
_DYNAMIC_SYMBOLS: Final = 11  # SHT_DYNSYM


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int  # the section of a symbol table's names


def exported_texts(path: str, prefix: str) -> dict[str, str]:
    """The texts that a library exports, ``const char <prefix><name>[] = "..."``, by name, sorted.

    Raises:
        ValueError: If the file is no library, or not all of one; if a symbol is no UTF-8 text that
            is in the file: a pointer to a text, for example.
    """
    content = Path(path).read_bytes()
    if content[:6] != _LITTLE_64:
        raise ValueError(f"graphffi: library {path!r}: expected a library, got another file")
    try:
        symbols = sorted(_symbols(content, prefix))
    except (ValueError, IndexError, struct.error):
        raise ValueError(
            f"graphffi: library {path!r}: expected tables of symbols, got none that can be read: "
            "the file is truncated or damaged"
        ) from None
    found = {}
    for name, address, size in symbols:
        try:
            begin = _file_offset(content, address)
            text = content[begin : begin + size].partition(b"\0")[0].decode()
        except (ValueError, struct.error):
            text = ""
        if not text:
            raise ValueError(
                f"graphffi: library {path!r}: symbol {prefix}{name}: expected an array of "
                'characters, const char name[] = "...", got other data'
            )
        found[name] = text
    return found


def _symbols(content: bytes, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Name without the prefix, address and size of the symbols that a library defines."""
    wanted = prefix.encode()
    sections = list(_sections(content))
    if wanted not in content:
        return
    for table in sections:
        if table.kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[table.link]
        strings = content[names.offset : names.offset + names.size]
        for at in range(table.offset, table.offset + table.size, 24):
            name, _, _, section, address, size = struct.unpack_from("<IBBHQQ", content, at)
            if section and strings.startswith(wanted, name):
                whole = strings[name : strings.index(b"\0", name)].decode(errors="replace")
                yield whole.removeprefix(prefix), address, size


def _sections(content: bytes) -> Iterator[_Section]:
    (table,) = struct.unpack_from("<Q", content, 0x28)
    entry, count = struct.unpack_from("<HH", content, 0x3A)
    for at in range(table, table + entry * count, entry):
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", content, at)
        yield _Section(kind, offset, size, link)


def _file_offset(content: bytes, address: int) -> int:
    (table,) = struct.unpack_from("<Q", content, 0x20)
    entry, count = struct.unpack_from("<HH", content, 0x36)
    for at in range(table, table + entry * count, entry):
        kind, _, offset, start, _, size = struct.unpack_from("<IIQQQQ", content, at)
        if kind == _LOAD and start <= address < start + size:
            return int(address - start + offset)
    raise ValueError(address)
