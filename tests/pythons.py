# SPDX-License-Identifier: Apache-2.0
"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FORKY = Path(os.environ.get("FORKY", Path(__file__).parents[1] / "build/forky")).resolve()
"""The folder of `make forky`, whose Python also runs outside of its system."""
FORKY_PYTHON = "3.14"


def find_python(version: str) -> str | None:
    """The interpreter of a version such as "3.12".

    It is this one, one of pyenv's, on the PATH, or that of `make forky`.
    """
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    forky = FORKY / f"usr/bin/python{version}-outside"
    for found in (*map(str, reversed(pyenv)), *map(shutil.which, (f"python{version}", forky))):
        # Version managers have a program of that name also where they have no such Python.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return str(found)
    return None
