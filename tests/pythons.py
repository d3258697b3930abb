# SPDX-License-Identifier: Apache-2.0
"""The Pythons of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def find_python(version: str) -> str | None:
    """The interpreter of a version such as "3.12": this one, one of pyenv's, or on the PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (*map(str, reversed(pyenv)), shutil.which(f"python{version}")):
        # Version managers have a program of that name also where they have no such Python.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return None
