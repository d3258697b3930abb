# SPDX-License-Identifier: Apache-2.0
"""Warns of Python kernels that are made anew for each call: JAX compiles each of them."""

from __future__ import annotations

import re
import warnings
from typing import Final

from graphffi.plugin import OWN_NAMES

_MANY = 16
# Names by what all copies of a function share; None once that was warned of.
_names: Final[dict[str, set[str] | None]] = {}


def note_kernel(reference: str) -> None:
    """Warns once of a function of which many copies were called."""
    if not reference.startswith(OWN_NAMES):
        return
    function = re.sub(r"\.[0-9a-f]{16}([.#]\d+)?$", "", reference)
    names = _names.setdefault(function, set())
    if names is None:
        return
    names.add(reference)
    if len(names) < _MANY:
        return
    _names[function] = None
    warnings.warn(
        f"graphffi: kernel {function.removeprefix(OWN_NAMES)}: expected a function that is made "
        f"once, got {_MANY} of them, each of which JAX compiles; pass what changes as an argument",
        RuntimeWarning,
        stacklevel=2,
    )
