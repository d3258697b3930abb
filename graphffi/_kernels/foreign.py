# SPDX-License-Identifier: Apache-2.0
"""Functions of apache-tvm-ffi's package, and the libraries that they are of."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from .. import _core
from .._values.module import load_module

# Releases whose function objects `exported_symbol` knows.
_TESTED: Final = ("0.1.15",)


def library_reference(function: _core.Function, given: Any) -> str | None:
    """The reference of a function of a library that apache-tvm-ffi's package loaded.

    That package keeps no file of a module: the address of the function's code tells it.

    Args:
        function: As graphffi has it.
        given: What it was made of, such as a ``tvm_ffi.Function``.

    Returns:
        None for another function, a release that was not tested, or a library whose file is not
        what was loaded.
    """
    package = sys.modules.get("tvm_ffi")
    if package is None or type(given).__module__ != "tvm_ffi.core":
        return None
    if ".".join(str(package.__version__).split(".")[:3]) not in _TESTED:
        return None
    found = _core.exported_symbol(function)
    if found is None or not _is_loaded(path := os.path.realpath(found[0])):
        return None
    load_module(path)  # from now on the path means this file
    return f"{path}::{found[1]}"


def _is_loaded(path: str) -> bool:
    """True if the file at a path is the one of which this process has code."""
    with open("/proc/self/maps") as file:
        rows = [line.split(maxsplit=5) for line in file]
    loaded = {int(row[4]) for row in rows if len(row) == 6 and row[5].rstrip("\n") == path}
    return os.path.isfile(path) and loaded == {os.stat(path).st_ino}
