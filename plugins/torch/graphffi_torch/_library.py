# SPDX-License-Identifier: Apache-2.0
"""Loads libgraphffi_torch.so, which serves the torch that it was built for and no other."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import torch

import graphffi  # noqa: F401 - opens the runtime that the libraries below need

_FOLDER: Final = Path(__file__).parent / "lib"


def check_torch_version(built_for: str, running: str) -> None:
    """Compares versions of torch.

    Raises:
        ImportError: If they differ: libtorch's C++ ABI changes with every release.
    """
    if built_for != running:
        raise ImportError(
            f"graphffi_torch: expected torch {built_for}, for which it was built, got torch "
            f"{running}; rebuild it with pip install --no-build-isolation"
        )


def library_path() -> str:
    """The folder of libgraphffi_torch.so, for C++ programs that link it."""
    return str(_FOLDER)


def include_path() -> str:
    """The folder of the headers for C++ programs, such as ``graphffi_torch/package.h``."""
    return str(_FOLDER / "include")


def load() -> None:
    """Makes the operators of the library known to torch.

    Raises:
        ImportError: If the library is missing or was built for another torch.
    """
    library = _FOLDER / "libgraphffi_torch.so"
    if not library.exists():
        raise ImportError(
            f"graphffi_torch: cannot load '{library}': no such file; build the torch plugin"
        )
    check_torch_version((_FOLDER / "built_for_torch.txt").read_text().strip(), torch.__version__)
    torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    # Again, for code that Inductor generates: it finds the entry among the process's symbols.
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


load()
