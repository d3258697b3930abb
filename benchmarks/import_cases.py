# SPDX-License-Identifier: Apache-2.0
"""The cost of imports, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from timing import Case, Contender, once


def interpreter(code: str) -> Contender:
    """A fresh interpreter that runs `code`, with bytecode cached as for any installed package."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    return Contender(code, once(lambda: subprocess.run(command, check=True, env=env)))


def case(name: str, *codes: str) -> Case:
    """Interpreters that import different modules, the first against the others."""
    contenders = [interpreter(code) for code in codes]
    return Case(name, contenders, unit="ms", scale=1e-6)


def cases() -> list[Case]:
    """Imports of graphffi's packages; bare Python or the framework alone is the lower bound."""
    return [
        case("import: a whole interpreter", "import graphffi", "pass", "import tvm_ffi"),
        case("import: the PyTorch plugin", "import graphffi_torch", "import torch"),
        case("import: the JAX plugin", "import graphffi_jax", "import jax"),
    ]
