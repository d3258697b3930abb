# SPDX-License-Identifier: Apache-2.0
"""``graphffi check``."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from .._command.progress import Progress
from .._definition.load_ops import op_arguments
from .._definition.op import Op
from .._frameworks.plugins import PLUGINS
from ._examine import absent_modules
from ._parent import find, target_of
from ._report import Report


def check_command(
    target: str,
    namespace: str | None,
    *,
    seed: int,
    budget: float,
    patience: float,
    frameworks: Sequence[str],
    device: str,
) -> list[Report]:
    """Checks the ops that a target names.

    Args:
        target: ``module``, ``module:op``, ``library.so`` or ``library.so:op``.
        namespace: Of a library's ops; default: as `load_ops` has it.
        seed: Of the operands' contents.
        budget: Seconds for each op.
        patience: Seconds after which a call hangs.
        frameworks: Beside NumPy.
        device: Of the operands.

    Raises:
        ImportError: If the module can't be imported.
        ValueError: If there is no such op, or no such device.
    """
    reports = []
    for at in targets_of("check", target, namespace):
        options: dict[str, Any] = {
            "seed": seed, "budget": budget, "patience": patience, "frameworks": frameworks,
            "device": device,
        }  # fmt: skip
        with Progress(at["op"], budget, "s") as progress:
            options["progress"] = partial(_show, progress, time.monotonic())
            reports.append(find(at, **options))
    return reports


def _show(progress: Progress, begin: float, text: str) -> None:
    progress(time.monotonic() - begin, text)


def checked_frameworks(command: str, opt_text: str | None) -> list[str]:
    """The names in an option's value; all frameworks without the option.

    Raises:
        ImportError: If a framework that is named, or its plugin, is not installed.
        ValueError: If one is unknown.
    """
    if opt_text is None:
        return list(PLUGINS)
    names = [name for name in opt_text.split(",") if name]
    for name in names:
        if name not in PLUGINS:
            known = ", ".join(PLUGINS)
            raise ValueError(f"graphffi {command}: --frameworks: expected {known}, got {name!r}")
        if absent := absent_modules(name):
            raise ImportError(
                f"graphffi {command}: --frameworks: expected {name} with its plugin, got no "
                f"{absent[0]}; install it, or leave {name} out"
            )
    return names


def targets_of(command: str, target: str, namespace: str | None) -> list[dict[str, Any]]:
    """The place where another process finds the ops that a target names.

    Raises:
        ImportError: If the module can't be imported.
        ValueError: If there is no such op.
    """
    place, _, name = target.partition(":")
    is_library = ".so" in place
    if is_library and not os.path.isfile(place):
        raise FileNotFoundError(f"graphffi {command}: {place}: expected a library, got no file")
    targets = _of_library(place, namespace) if is_library else _of_module(command, place)
    chosen = [at for at in targets if name in ("", at["op"], at["op"].partition("::")[2])]
    if not chosen:
        known = ", ".join(at["op"] for at in targets)
        expected = f"an op of {known}" if known else "a module that defines ops, got one without"
        raise ValueError(f"graphffi {command}: {target}: expected {expected}")
    return chosen


def _of_library(path: str, namespace: str | None) -> list[dict[str, Any]]:
    path = os.path.abspath(path)
    names = namespace or os.path.basename(path).removeprefix("lib").partition(".")[0]
    return [{"op": f"{names}::{op}", "library": path} for op in op_arguments(path, names, "")]


def _of_module(command: str, name: str) -> list[dict[str, Any]]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # modules are the user's, and may fail in any way
        raise ImportError(
            f"graphffi {command}: {name}: expected a module that can be imported, got "
            f"{type(error).__name__}: {error}"
        ) from error
    ops = {value.name: value for value in vars(module).values() if isinstance(value, Op)}
    return [{**target_of(op), "module": name, "file": module.__file__} for op in ops.values()]
