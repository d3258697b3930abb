# SPDX-License-Identifier: Apache-2.0
"""Where graphffi's own files are, and those that it makes."""

from __future__ import annotations

import hashlib
import os
import sysconfig

from . import _core

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def include_path() -> str:
    """Return the folder of the kernel-author headers, such as ``tvm/ffi/tvm_ffi.h``."""
    installed = os.path.join(_PACKAGE, "include")
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(_PACKAGE), "csrc", "include")  # in a source tree


def cache_folder() -> str:
    """Return `GRAPHFFI_CACHE_DIR`, or ``~/.cache/graphffi``."""
    configured = os.environ.get("GRAPHFFI_CACHE_DIR")
    if configured:
        return os.path.abspath(configured)
    return os.path.join(os.path.expanduser("~"), ".cache", "graphffi")


def plugin_cache() -> str:
    """Return where `python -m graphffi build-plugin` puts plugins for this Python and graphffi.

    They share structures with `graphffi._core`, so that each build of it has its own.
    """
    with open(str(_core.__file__), "rb") as core:
        digest = hashlib.sha256(core.read()).hexdigest()[:16]
    return os.path.join(cache_folder(), f"plugins-{sysconfig.get_config_var('SOABI')}-{digest}")
