# SPDX-License-Identifier: Apache-2.0
"""Where graphffi's own files are, and those that it makes."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from pathlib import Path

from . import _core

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def include_path() -> str:
    """Return the folder of the kernel-author headers, such as ``tvm/ffi/tvm_ffi.h``."""
    installed = os.path.join(_PACKAGE, "include")
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(_PACKAGE), "csrc", "include")  # in a source tree


def cmake_path() -> str:
    """Return the folder of the CMake packages ``graphffi`` and ``tvm_ffi``."""
    return os.path.join(_PACKAGE, "share", "cmake")


def cache_folder() -> Path:
    """Return where libraries are kept: `GRAPHFFI_CACHE_DIR`, or ``~/.cache/graphffi``."""
    configured = os.environ.get("GRAPHFFI_CACHE_DIR")
    return Path(configured).absolute() if configured else Path.home() / ".cache" / "graphffi"


def torch_build(folder: Path, version: str) -> Path:
    """Return where in a folder the PyTorch plugin for a version of torch is.

    libtorch's C++ ABI changes with every release, not with a patch of one.
    """
    return folder / f"torch-{'.'.join(version.split('.')[:2])}"


def plugin_cache() -> Path:
    """Return where `graphffi build-plugin` puts plugins for this Python and graphffi.

    They share structures with `graphffi._core`, so that each build of it has its own.
    """
    digest = hashlib.sha256(Path(str(_core.__file__)).read_bytes()).hexdigest()[:16]
    return cache_folder() / f"plugins-{sysconfig.get_config_var('SOABI')}-{digest}"
