# SPDX-License-Identifier: Apache-2.0
"""The program `graphffi`. Importing the package loads a runtime; `graphffi config` needs none."""

from __future__ import annotations

import json
import runpy
import sys
from importlib import util


def main() -> int:
    """Runs the command; gives the status of the process."""
    if sys.argv[1:2] == ["config"]:
        package = util.find_spec("graphffi")
        assert package is not None
        assert package.submodule_search_locations is not None
        config = runpy.run_path(f"{package.submodule_search_locations[0]}/_build/config.py")
        return int(config["main"](sys.argv[2:]))
    try:
        from graphffi._command.command import main as run
    except (ImportError, RuntimeError) as failure:  # no runtime, or a variable is refused
        is_json = "--json" in sys.argv
        print(json.dumps({"error": str(failure)}) if is_json else failure, file=sys.stderr)
        return 1
    return run()
