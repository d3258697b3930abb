# SPDX-License-Identifier: Apache-2.0
"""Shapes as values."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsIndex


class Shape(tuple[int, ...]):
    """A tuple of ints that kernels receive as a shape; a plain tuple is an array to them.

    Example:
        >>> Shape([2, 3])
        Shape(2, 3)
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[SupportsIndex] = ()) -> Shape:
        """Make a shape of its dimensions, outermost first."""
        return super().__new__(cls, map(operator.index, dims))

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self))})"
