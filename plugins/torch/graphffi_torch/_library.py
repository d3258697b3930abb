# SPDX-License-Identifier: Apache-2.0
"""Loads libgraphffi_torch.so and `_C`, of which there is a build for each release of torch."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError(
        "graphffi_torch: expected torch 2.10 or newer, got none; pip install torch"
    ) from error

# Opens the runtime that the libraries below need.
from graphffi.plugin import plugin_cache, torch_build

_PACKAGE: Final = Path(__file__).parent
_LIBRARY: Final = "libgraphffi_torch.so"


def find_build(version: str) -> Path:
    """The folder of the libraries for a torch.

    Raises:
        ImportError: If there is none.
    """
    builds = [torch_build(folder, version) for folder in (_PACKAGE / "lib", plugin_cache())]
    for build in builds:
        if os.path.exists(build / _LIBRARY):  # False, too, in a cache of another user
            return build
    built = sorted(path.parent.name for path in _PACKAGE.glob(f"lib/torch-*/{_LIBRARY}"))
    raise ImportError(
        f"graphffi_torch: expected a build for {builds[0].name.replace('-', ' ')}, got "
        f"{', '.join(built) or 'none'}; run `graphffi build-plugin`, "
        "which needs a C++ compiler and takes about a minute"
    )


def library_path() -> str:
    """The folder of libgraphffi_torch.so, for C++ programs that link it."""
    return str(_BUILD)


def include_path() -> str:
    """The folder of the headers for C++ programs, such as ``graphffi_torch/package.h``."""
    installed = _PACKAGE / "include"
    return str(installed if installed.is_dir() else _PACKAGE.parent / "csrc" / "include")


def _load(build: Path) -> None:
    """Makes the operators of the library known to torch, and `_C` importable."""
    library = build / _LIBRARY
    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    # Again, for code that Inductor generates: it finds the entry among the process's symbols.
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    sys.modules[__package__].__path__.insert(0, str(build))


_BUILD: Final = find_build(torch.__version__)
_load(_BUILD)
