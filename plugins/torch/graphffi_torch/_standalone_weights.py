# SPDX-License-Identifier: Apache-2.0
"""The weights of a library's methods, each content once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

_NUMBERED: Final = r"constants_info_\[(\d+)\]\."
_SIZE: Final = re.compile(_NUMBERED + r"data_size = (\d+);")
_NAME: Final = re.compile(_NUMBERED + r'original_fqn = "([^"]*)";')
_IDENTIFIER: Final = re.compile(_NUMBERED + r'name = "([^"]*)";')


@dataclass(frozen=True)
class Constant:
    """Where a constant is among a library's weights.

    Args:
        offset: In bytes.
        size: In bytes.
        is_updated: Whether models change it: calls use a copy.
    """

    offset: int
    size: int
    is_updated: bool


class WeightFile:
    """The weights of all methods."""

    def __init__(self) -> None:
        """Has the weights of no method yet."""
        self.content = bytearray()
        self._offsets: dict[tuple[str, bytes], int] = {}

    def add(self, code: str, weights: bytes, updated: frozenset[str]) -> list[Constant]:
        """Adds a model's constants.

        Args:
            code: What AOTInductor wrote.
            weights: Its constants, one behind the other.
            updated: Names of buffers that the model changes: they are shared by name.

        Returns:
            The constants in the order of the code.
        """
        sizes = {int(i): int(size) for i, size in _SIZE.findall(code)}
        names = dict(_NAME.findall(code))
        identifiers = dict(_IDENTIFIER.findall(code))
        body = code[code.rfind("::run_impl(") :]
        constants = []
        start = 0
        for i in sorted(sizes):
            data = weights[start : start + sizes[i]]
            start += sizes[i]
            name = names.get(str(i), "")
            is_updated = name in updated
            # Torch keeps those, too, of which only a packed copy is read.
            is_read = len(re.findall(rf"\b{identifiers[str(i)]}\b", body)) > 1
            offset = self._place(name if is_updated else "", data) if is_read or is_updated else 0
            constants.append(Constant(offset, len(data), is_updated))
        return constants

    def _place(self, name: str, data: bytes) -> int:
        key = name, hashlib.sha256(data).digest()
        if key not in self._offsets:
            self.content.extend(bytes(-len(self.content) % 64))
            self._offsets[key] = len(self.content)
            self.content.extend(data or bytes(1))  # an empty one has a place of its own, too
        return self._offsets[key]
