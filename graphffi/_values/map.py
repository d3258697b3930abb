# SPDX-License-Identifier: Apache-2.0
"""Maps whose keys are equal in Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class Map(Mapping[Any, Any]):
    """A returned map with keys that a dict would merge, such as ``0``, ``0.0`` and ``False``.

    A look-up finds a key of the same type only.

    Example:
        >>> m = Map([(0, "int"), (False, "bool")])
        >>> m[False], len(m)
        ('bool', 2)
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Make a map of its pairs, in order."""
        self._pairs = {_identity(key): (key, value) for key, value in pairs}

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._pairs[_identity(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)

    def items(self) -> Any:
        """The pairs."""
        return self._pairs.values()

    def __repr__(self) -> str:
        return f"Map({{{', '.join(f'{key!r}: {value!r}' for key, value in self.items())}}})"


def _identity(key: Any) -> tuple[Any, ...]:
    """A value that tells keys apart as the runtime does: zeros of both signs, too."""
    return type(key), key, isinstance(key, float) and math.copysign(1.0, key)
