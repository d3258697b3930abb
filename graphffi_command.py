# SPDX-License-Identifier: Apache-2.0
"""The program `graphffi`. Importing the package loads a runtime; `graphffi config` needs none."""

from __future__ import annotations

import runpy
import sys
from importlib import util


def main() -> int:
    """Runs the command; gives the status of the process."""
    if sys.argv[1:2] == ["config"]:
        package = util.find_spec("graphffi")
        assert package is not None
        assert package.submodule_search_locations is not None
        config = runpy.run_path(f"{package.submodule_search_locations[0]}/_config.py")
        return int(config["main"](sys.argv[2:]))
    from graphffi._command import main as run

    return run()
