# SPDX-License-Identifier: Apache-2.0
"""The places of the files that graphffi makes."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from pathlib import Path

from .. import _core


def cache_folder() -> Path:
    """Return where libraries are kept: `GRAPHFFI_CACHE_DIR`, or ``~/.cache/graphffi``."""
    configured = os.environ.get("GRAPHFFI_CACHE_DIR")
    return (Path(configured) if configured else _home() / ".cache" / "graphffi").absolute()


def _home() -> Path:
    """The user's folder; for a user without one, a folder that does not exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")  # of which `make_folder` says that it cannot be written


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
