# SPDX-License-Identifier: Apache-2.0
"""Edits of the C++ code that AOTInductor generates: each is counted, and refused if it misses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|[(){}]')


def refuse_code(what: str, expected: str, got: str) -> NoReturn:
    """Refuses generated code of another shape than known.

    Args:
        what: That is read or edited.
        expected: Of it.
        got: Instead.
    """
    raise NotImplementedError(
        f"graphffi_torch: to_library: {what} in the code that torch {torch.__version__} generates: "
        f"expected {expected}, got {got}; please report it, with the program"
    )


def edit(
    code: str,
    what: str,
    pattern: str,
    new: str | Callable[[re.Match[str]], str],
    *,
    places: int,
) -> str:
    """Replaces each match of a pattern.

    Args:
        code: To edit.
        what: The places, for errors.
        pattern: A regular expression.
        new: As of `re.sub`.
        places: How many matches there have to be, known in another way than by the pattern.

    Raises:
        NotImplementedError: There is another number of them.
    """
    edited, count = re.subn(pattern, new, code)
    if count != places:
        refuse_code(what, f"{places} places that graphffi knows", str(count))
    return edited


def end_of_block(what: str, code: str, start: int) -> int:
    """The place behind what a bracket at `start` opens; texts and comments have none."""
    depth = 0
    for token in _TOKEN.finditer(code, start):
        depth += (token[0] in "({") - (token[0] in ")}")
        if depth == 0:
            return token.end()
    refuse_code(what, "a block that ends", "none")
