# SPDX-License-Identifier: Apache-2.0
"""The process in which a check runs an op's kernels: it prints an event a line."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _core
from .._definition.op import get_op
from ._case import Case
from ._device import check_device
from ._examine import Examination, Options, rerun
from ._processes.fresh import FreshProcess

if TYPE_CHECKING:
    from .._definition.op import Op


def find_op(target: dict[str, Any]) -> Op:
    """The op that a target means.

    Args:
        target: ``op``: its name; and ``library``: that describes it, or ``module`` and ``file``: a
            module that defines it when it is imported, and where that is.

    Raises:
        KeyError: If nothing defines it.
    """
    if target.get("library"):
        from .._definition.load_ops import load_ops

        load_ops(target["library"], namespace=target["op"].partition("::")[0])
    else:
        _import(target["module"], target.get("file"))
    return get_op(target["op"])


def _import(name: str, file: str | None) -> None:
    try:
        if name == "__main__":
            raise ImportError(name)
        importlib.import_module(name)
    except ImportError:
        if not file:
            raise
        sys.path.insert(0, str(Path(file).parent))
        name = "__mp_main__" if name == "__main__" else name
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def reproduce(target: dict[str, Any], step: str, case: dict[str, Any]) -> None:
    """Runs one step of a check on one case in this process, and prints what is wrong.

    Args:
        target: As for `find_op`.
        step: Of the check.
        case: As `Case.to_json` gave it.
    """

    def say(event: str, **found: Any) -> None:
        if event == "finding":
            print(f"{found['kind']} ({found['path']}): {found['text']}", flush=True)

    op = find_op(target)
    rerun(
        op, step, Case.from_json(case, op.definition), say, _fresh(op) if step == "fresh" else None
    )


def _fresh(op: Op) -> FreshProcess | None:
    """None where threads run, which a forked process would not have."""
    return FreshProcess(op) if len(os.listdir("/proc/self/task")) == 1 else None


def main() -> None:
    """Reads the target and options from the input, and writes events to the output."""
    asked = json.loads(sys.stdin.readline())
    sys.path[:0] = [path for path in asked["path"] if path not in sys.path]
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels print

    def say(event: str, **found: Any) -> None:
        events.write(json.dumps({"event": event, **found}) + "\n")
        events.flush()

    options = {**asked["options"], "skip": frozenset(asked["options"]["skip"])}
    op = find_op(asked["target"])
    say("ready")
    fresh = _fresh(op)  # CUDA works in no process that is forked after its first use
    check_device(op.name, options.get("device", "cpu"))
    examination = Examination(op, Options(**options), say, fresh)
    examination.run_debug() if _core.is_debugging else examination.run()
    os._exit(0)  # the end of an interpreter with compilers in it takes a second or two
