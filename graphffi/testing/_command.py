# SPDX-License-Identifier: Apache-2.0
"""``graphffi check``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from .._load_ops import op_arguments
from .._op import Op
from ._parent import find, target_of
from ._report import Report


def check_command(
    target: str, namespace: str | None, *, seed: int, budget: float, frameworks: Sequence[str]
) -> list[Report]:
    """Checks the ops that a target names.

    Args:
        target: ``module``, ``module:op``, ``library.so`` or ``library.so:op``.
        namespace: Of a library's ops; default: as `load_ops` has it.
        seed: Of the operands' contents.
        budget: Seconds for each op.
        frameworks: Beside NumPy.

    Raises:
        ImportError: If the module can't be imported.
        ValueError: If there is no such op.
    """
    reports = []
    for at in targets_of("check", target, namespace):
        options: dict[str, Any] = {"seed": seed, "budget": budget, "frameworks": frameworks}
        reports.append(find(at, **options, progress=Progress(at["op"])))
    return reports


def targets_of(command: str, target: str, namespace: str | None) -> list[dict[str, Any]]:
    """Where another process finds the ops that a target names.

    Raises:
        ImportError: If the module can't be imported.
        ValueError: If there is no such op.
    """
    place, _, name = target.partition(":")
    targets = _of_library(place, namespace) if ".so" in place else _of_module(place)
    chosen = [at for at in targets if name in ("", at["op"], at["op"].partition("::")[2])]
    if not chosen:
        known = ", ".join(at["op"] for at in targets)
        raise ValueError(f"graphffi {command}: {target}: expected an op of {known or 'none'}")
    return chosen


def _of_library(path: str, namespace: str | None) -> list[dict[str, Any]]:
    path = os.path.abspath(path)
    names = namespace or os.path.basename(path).removeprefix("lib").partition(".")[0]
    return [{"op": f"{names}::{op}", "library": path} for op in op_arguments(path, names, "")]


def _of_module(name: str) -> list[dict[str, Any]]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = importlib.import_module(name)
    ops = {value.name: value for value in vars(module).values() if isinstance(value, Op)}
    return [{**target_of(op), "module": name, "file": module.__file__} for op in ops.values()]


class Progress:
    """Shows what runs on a terminal, in one line."""

    def __init__(self, op: str) -> None:
        self._op = op

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty():
            line = f"{self._op}: {text}"[:100]
            print(f"\r{line:<100}\r", end="", file=sys.stderr, flush=True)
