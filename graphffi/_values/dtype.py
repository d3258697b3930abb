# SPDX-License-Identifier: Apache-2.0
"""Data types, by the names that DLPack's consumers share."""

from __future__ import annotations

import functools
import operator
import re
from typing import Any

_KIND_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}
_KINDS = {code: kind for kind, code in _KIND_CODES.items()}
_HANDLE, _BOOL = 3, 6
# name: (code, bits); their names do not follow from kind and width.
_NAMED = {
    "handle": (_HANDLE, 64),
    "bool": (_BOOL, 8),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}
_NAMES = {described: name for name, described in _NAMED.items()}
# Other names in frameworks: torch packs two 4-bit values into one element.
_ALIASES = {"bool_": "bool", "float4_e2m1fn_x2": "float4_e2m1fnx2"}
_NAMED_PATTERN = rf"({'|'.join(sorted(_NAMED, key=len, reverse=True))})(?:x([1-9][0-9]*))?"
_PATTERN = r"(int|uint|float|bfloat|complex)([1-9][0-9]*)(?:x([1-9][0-9]*))?"


class dtype(str):
    """A data type: a string such as ``"float32"`` that also knows its DLPack code, bits and lanes.

    Accepts a name, another ``dtype``, the data types of NumPy, torch and JAX (by their names:
    no framework is imported), and objects with ``__dlpack_data_type__``. It compares equal to its
    name.

    Attributes:
        code: DLPack's type code.
        bits: width of one lane.
        lanes: number of lanes, 1 for scalars.

    Raises:
        TypeError: if ``value`` is no data type at all.
        ValueError: if its name is unknown, or its byte order is not this machine's.

    Example:
        >>> dtype("bfloat16").itemsize, dtype("float32") == "float32"
        (2, True)
    """

    __slots__ = ("bits", "code", "lanes")
    code: int
    bits: int
    lanes: int

    def __new__(cls, value: object) -> dtype:
        """Make a data type of a name or of another library's data type."""
        if type(value) is cls:
            return value
        if not isinstance(value, str) and hasattr(type(value), "__dlpack_data_type__"):
            return cls.from_dlpack_type(*_three_numbers(value))
        name = value if isinstance(value, str) else _foreign_name(value)
        code, bits, lanes = _parse(name)
        if not getattr(value, "isnative", True):  # of NumPy
            raise ValueError(
                f"graphffi: dtype: expected a data type in the byte order of this machine, got "
                f"{value!r}"
            )
        return cls.from_dlpack_type(code, bits, lanes)

    @classmethod
    def from_dlpack_type(cls, code: int, bits: int, lanes: int = 1) -> dtype:
        """Make a data type of DLPack's three numbers."""
        self = super().__new__(cls, _format(code, bits, lanes))
        self.code, self.bits, self.lanes = code, bits, lanes
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (self.bits * self.lanes + 7) // 8

    def __repr__(self) -> str:
        return f"dtype({str(self)!r})"

    def __str__(self) -> str:
        return str.__str__(self)

    __hash__ = str.__hash__


@functools.lru_cache(maxsize=256)
def _parse(name: str) -> tuple[int, int, int]:
    name = name.removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if match := re.fullmatch(_NAMED_PATTERN, name):
        return (*_NAMED[match[1]], int(match[2] or 1))
    match = re.fullmatch(_PATTERN, name)
    if match and int(match[2]) < 256 and int(match[3] or 1) < 65536:
        return _KIND_CODES[match[1]], int(match[2]), int(match[3] or 1)
    raise ValueError(
        f"graphffi: dtype: expected a name such as float32, bfloat16, int64, uint8, bool, "
        f"float8_e4m3fn or complex64, got {name!r}"
    )


def _format(code: int, bits: int, lanes: int) -> str:
    suffix = "" if lanes == 1 else f"x{lanes}"
    fits = 0 < bits < 256 and 0 < lanes < 65536
    if fits and (code, bits) in _NAMES:
        return _NAMES[code, bits] + suffix
    if fits and code in _KINDS:
        return f"{_KINDS[code]}{bits}{suffix}"
    raise ValueError(
        f"graphffi: dtype: expected a DLPack data type, got code {code}, bits {bits}, lanes {lanes}"
    )


def _three_numbers(value: Any) -> tuple[int, int, int]:
    """Return the code, bits and lanes that an object says it stands for."""
    given = value.__dlpack_data_type__()
    if isinstance(given, tuple) and len(given) == 3:
        if all(hasattr(number, "__index__") for number in given):
            code, bits, lanes = map(operator.index, given)
            return code, bits, lanes
    raise TypeError(
        f"graphffi: dtype: expected (code, bits, lanes) from __dlpack_data_type__, got {given!r}"
    )


def _foreign_name(value: Any) -> str:
    """Return what NumPy, torch or JAX calls its data type."""
    name = getattr(value, "name", None)  # np.dtype
    if isinstance(name, str):
        return name
    kind = type(value)
    if kind.__module__ == "torch" and kind.__name__ == "dtype":
        return str(value)
    inner: Any = getattr(value, "dtype", None)  # jnp.float32
    if isinstance(getattr(inner, "name", None), str):
        return str(inner.name)
    if isinstance(value, type) and any(base.__module__ == "numpy" for base in value.__mro__):
        return value.__name__
    raise TypeError(
        f"graphffi: dtype: expected a name or a data type of NumPy, torch or JAX, got "
        f"{type(value).__name__} {value!r}"
    )
