# SPDX-License-Identifier: Apache-2.0
"""The text of a call, the one attribute of a custom call: all that a program says but arrays.

The first line is the format, each other one a name and a value; `csrc/call_text.cc` reads them:

- ``kernel``: its reference; ``library``: the name of its library in packages;
- ``plan``: over i0…, o0…, n0…, f0…, s0…; without it, the kernel gets operands, then results;
- ``int``, ``float``, ``str``: n0, n1, … and so on, in this order;
- ``subject``: of errors, if it is not the kernel; ``digest``: for caches of programs;
- ``arrays``: ``x, xs[0] -> out``, for errors; with dimensions where XLA may split the call;
- ``updated``: how many of the last operands are the last results;
- ``owning``: tensors are passed as owning ones; ``workspace``: the last result is scratch memory;
- ``ordered``: a token comes first; ``side_effect``: for the parts of a call that XLA splits;
- ``attribute``: of a target with a name of its own, an attribute that n0, n1, … is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from jax.extend.mlir import ir

from graphffi.plugin import read_lines, write_lines

ATTRIBUTE: Final = "call"
_FORMAT: Final = "tvm_ffi.call 2"

Lines = tuple[tuple[str, str], ...]
"""Names and values."""


class OtherFormatError(ValueError):
    """A program was made by another release."""


def write(lines: Iterable[tuple[str, str]]) -> str:
    """The text with these lines."""
    return write_lines(_FORMAT, lines)


def flags(**values: Any) -> Lines:
    """Lines of what is said of a call; what is false or empty is not said."""
    return tuple((name, str(value)) for name, value in values.items() if value)


def float_text(value: float) -> str:
    """All of a float: `repr` has one text for NaNs of both signs."""
    return "-nan" if math.isnan(value) and math.copysign(1, value) < 0 else repr(value)


def read(subject: str, attributes: ir.DictAttr) -> Lines:
    """The lines that the attributes of a custom call hold.

    Raises:
        OtherFormatError: If they are those of another release.
    """
    text = ir.StringAttr(attributes[ATTRIBUTE]).value if ATTRIBUTE in attributes else ""
    form, lines = read_lines(text)
    if form != _FORMAT:
        raise OtherFormatError(
            f"{subject}: expected calls of the format '{_FORMAT}', got "
            f"{repr(form) if form else 'a program made by graphffi 0.1'}; export again"
        )
    return lines
