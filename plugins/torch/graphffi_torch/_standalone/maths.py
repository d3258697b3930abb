# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors that torch's headers take from Sleef: glibc's, or one element at a time."""

from __future__ import annotations

import re
from typing import Final

_SLEEF: Final = re.compile(r"Sleef_([a-z0-9]+?)([df])(2|4|8|16)(?:_u\d+\w*)?\Z")
# glibc's libmvec has them for vectors, from version 2.35 on.
_VECTOR: Final = frozenset(
    "acos acosh asin asinh atan atanh atan2 cbrt cos cosh erf erfc exp exp10 exp2 expm1 hypot log "
    "log10 log1p log2 pow sin sinh tan tanh".split()
)
_ELEMENTS: Final = frozenset("copysign fmod lgamma nextafter tgamma".split())
_BINARY: Final = frozenset("atan2 copysign fmod hypot nextafter pow".split())
_TYPES: Final = {
    ("f", 4): ("__m128", "b"),
    ("d", 2): ("__m128d", "b"),
    ("f", 8): ("__m256", "d"),
    ("d", 4): ("__m256d", "d"),
    ("f", 16): ("__m512", "e"),
    ("d", 8): ("__m512d", "e"),
}


def maths_code(undefined: set[str]) -> str:
    """The text of a file that defines those of the names that are Sleef's; empty if none is.

    Raises:
        NotImplementedError: For one that glibc has no function for.
    """
    names = sorted(name for name in undefined if name.startswith("Sleef_"))
    if not names:
        return ""
    functions = [_function(name) for name in names]
    return "#include <immintrin.h>\n\n#include <cmath>\n" + "".join(functions)


def _function(name: str) -> str:
    match = _SLEEF.match(name)
    function, kind, width = (match[1], match[2], int(match[3])) if match else ("", "", 0)
    if (kind, width) not in _TYPES or function not in _VECTOR | _ELEMENTS:
        raise NotImplementedError(
            f"graphffi_torch: to_library: expected functions of glibc, got '{name}'; write the "
            "model without it"
        )
    vector, isa = _TYPES[kind, width]
    names = ("x", "y") if function in _BINARY else ("x",)
    parameters = ", ".join(f"{vector} {n}" for n in names)
    arguments = ", ".join(names)
    scalar = function + ("f" if kind == "f" else "")
    head = f'extern "C" {vector} {name}({parameters})'
    if function in _VECTOR:
        known = f"_ZGV{isa}N{width}{'v' * len(names)}_{scalar}"
        declaration = f'extern "C" {vector} {known}({parameters});'
        return f"\n{declaration}\n{head} {{ return {known}({arguments}); }}\n"
    each = ", ".join(f"{n}[i]" for n in names)
    return f"""
{head} {{
  for (int i = 0; i < {width}; ++i) x[i] = std::{function}({each});
  return x;
}}
"""
