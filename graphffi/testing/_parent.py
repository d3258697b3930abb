# SPDX-License-Identifier: Apache-2.0
"""Runs checks in other processes, so that a kernel that crashes is a finding."""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from .._definition.op import Op, check_op
from .._frameworks.plugins import PLUGINS
from .._values.runtime import runtime_info
from ._device import is_known
from ._processes.ending import how_it_ended
from ._processes.hang import Limit
from ._report import FEWER_THREADS, Finding, Report, script_of

_MOST_CRASHES: Final = 8
_LEAST_SECONDS: Final = 3.0  # that each process has
_START_PATIENCE: Final = 120.0  # seconds for what comes before the first step
_SILENCE: Final = 1.0  # seconds after which a step's limit begins


def check(
    op: Op | dict[str, Any],
    cases: Sequence[dict[str, Any]] | None = None,
    *,
    seed: int = 0,
    budget: float = 60.0,
    patience: float = 20.0,
    frameworks: Sequence[str] = ("torch", "jax"),
    device: str = "cpu",
) -> Report:
    """Checks an op on every path that is installed.

    Args:
        op: The op, whose module another process can import; or where to find one: see `find`.
        cases: Inputs instead of generated ones: for each operand a `TensorSpec`, ``(shape, dtype)``
            or ``(shape, dtype, high)`` with a bound for its integers, for attributes their values.
        seed: Of the operands' contents.
        budget: Seconds after which no step begins.
        patience: Seconds of processor time, or of waiting, after which a call hangs; a factory that
            compiles in it may need more.
        frameworks: On whose paths, beside NumPy; those that are not installed are left out.
        device: Of the operands: ``cpu`` or ``cuda``, where PyTorch's tensors take the place of
            arrays of NumPy.

    Returns:
        The report, without findings.

    Raises:
        AssertionError: With the report as text, if there are findings.
        ValueError: If a case does not fit the op, `budget` or `patience` is no time, or there is no
            such device.
        RuntimeError: If the other process can't find the op.
    """
    options: dict[str, Any] = {"budget": budget, "patience": patience, "frameworks": frameworks}
    report = find(op, cases, seed=seed, device=device, **options)
    if report.findings:
        raise AssertionError(str(report))
    return report


def find(
    op: Op | dict[str, Any],
    cases: Sequence[dict[str, Any]] | None = None,
    *,
    seed: int = 0,
    budget: float = 60.0,
    patience: float = 20.0,
    frameworks: Sequence[str] = ("torch", "jax"),
    device: str = "cpu",
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Does what `check` does, and returns findings instead of raising.

    Instead of the op, it takes ``{"op": name, "module": name, "file": path}`` of the module that
    defines it, or ``{"op": name, "library": path}`` of the library that describes it. `progress`
    gets what is about to run, in words. The other arguments are those of `check`.

    Raises:
        RuntimeError: If the other process can't find the op, or this is such a process.
        ValueError: If a case does not fit the op, or another argument is none that there is.
    """
    target = op if isinstance(op, dict) else target_of(op)
    own_spec = getattr(sys.modules["__main__"], "__spec__", None)
    if own_spec is not None and own_spec.name == f"{__package__}.__main__":
        raise RuntimeError(
            f"{target['op']}: check: expected no call from its module's import, got one; put it "
            'behind if __name__ == "__main__"'
        )
    for name, seconds in (("budget", budget), ("patience", patience)):
        if not 0 < seconds < math.inf:
            raise ValueError(
                f"{target['op']}: check: {name}: expected seconds, more than 0, got {seconds}"
            )
    if isinstance(frameworks, str) or not all(name in PLUGINS for name in frameworks):
        raise ValueError(
            f"{target['op']}: check: frameworks: expected names of {', '.join(PLUGINS)}, got "
            f"{frameworks!r}"
        )
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"{target['op']}: check: seed: expected an int of 0 or more, got {seed!r}")
    if not is_known(device):
        raise ValueError(f"{target['op']}: check: device: expected cpu or cuda, got {device!r}")
    options = {
        "cases": cases, "seed": seed, "patience": patience, "frameworks": [*frameworks],
        "device": device,
    }  # fmt: skip
    return _Check(target, options, budget, progress or (lambda _: None)).run()


def target_of(op: Op) -> dict[str, Any]:
    """The place where another process finds an op: the module that defines it.

    Raises:
        TypeError: If it is no op.
    """
    check_op("graphffi.testing: check", op)
    module = sys.modules.get(op.__module__)
    return {"op": op.name, "module": op.__module__, "file": getattr(module, "__file__", None)}


class _Check:
    """A check, over as many processes as it takes."""

    def __init__(
        self,
        target: dict[str, Any],
        options: dict[str, Any],
        budget: float,
        progress: Callable[[str], None],
    ) -> None:
        self._target = target
        self._options = options
        self._end = time.monotonic() + budget
        self._progress = progress
        self._found: dict[tuple[str, str], tuple[int, Finding]] = {}
        self._report = Report(target["op"])
        self._num_ended = 0

    def run(self) -> Report:
        """Runs processes until one comes to the end; then with the checks of debug mode."""
        begin = time.monotonic()
        skip: list[str] = []
        for is_debugging in (False, True):
            skip = [_in_debug_mode(key) for key in skip]
            while len(skip) <= _MOST_CRASHES:
                under_way = self._run_process(skip, is_debugging=is_debugging)
                if under_way is None:
                    break
                skip.append(under_way)
        self._report.num_cases += self._num_ended
        self._report.findings = [finding for _, finding in self._found.values()]
        self._report.notes = list(dict.fromkeys(self._report.notes))
        self._report.seconds = time.monotonic() - begin
        return self._report

    def _run_process(self, skip: Sequence[str], *, is_debugging: bool) -> str | None:
        """Follows one process; the key of the step in which it ended too early, or None."""
        end = max(self._end, time.monotonic() + _LEAST_SECONDS)
        options = {**self._options, "end": end, "skip": [*skip]}
        asked = {"target": self._target, "options": options, "path": sys.path}
        environment = {**FEWER_THREADS, **os.environ, "GRAPHFFI_RUNTIME": runtime_info().path}
        environment["GRAPHFFI_DEBUG"] = str(int(is_debugging))
        command = [sys.executable, "-m", "graphffi.testing"]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env=environment,
            ) as process,
        ):  # fmt: skip
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asked, default=_plain).encode() + b"\n")
                process.stdin.flush()
            last = self._follow(process)
            status = process.wait()
            if last is not None and last["event"] == "done":
                return None
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        if last is None:
            raise RuntimeError(
                f"{self._target['op']}: check: expected to find the op in another process, got: "
                f"{_last_line(text)}; define it in a module that can be imported"
            )
        if last["event"] == "ready":
            raise ValueError(_last_line(text).partition(": ")[2])
        if status > 0 and "Traceback" in text:
            raise RuntimeError(f"{self._target['op']}: check: it failed itself: {text}")
        return self._crashed(last, status, text)

    def _follow(self, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        """Reads events; the last that says how far the process is."""
        last, patience = None, _START_PATIENCE
        limit: Limit | None = None
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            rest = b""
            while True:
                if not selector.select(limit.seconds if limit else _SILENCE):
                    if limit and limit.is_over():
                        process.kill()
                        return last and {**last, "hangs": True}
                    limit = limit or Limit(process.pid, patience)
                    continue
                limit = None
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return last
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    patience = event.get("patience", patience)
                    if event["event"] in ("ready", "begin", "done"):
                        last = event
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "begin":
                step, _ = json.loads(event["key"])
                self._progress(f"{step}: {event['arguments']}")
            case "done":
                self._report.num_cases = event.get("num_cases", self._report.num_cases)
            case "note":
                self._report.notes.append(event["text"])
            case "finding":
                self._add(event)

    def _crashed(self, last: dict[str, Any], status: int, text: str) -> str:
        step, case = json.loads(last["key"])
        self._num_ended += step == "numpy"  # whose case no process counts
        hangs = "hangs" in last
        problem = "expected the call to return, got "
        problem += (
            f"none in {last['patience']:.0f} s"
            if hangs
            else f"{how_it_ended(status)} {_last_line(text)}".strip()
        )
        self._add(
            {
                "kind": "hang" if hangs else "crash", "path": step, "text": problem, "step": step,
                "case": case, "arguments": last["arguments"], "size": 0,
            }
        )  # fmt: skip
        return str(last["key"])

    def _add(self, event: dict[str, Any]) -> None:
        """Keeps the smallest case of each kind and path; of debug mode, new kinds."""
        key = (event["kind"], event["path"])
        known = {kind for kind, path in self._found if path != "debug"}
        if event["path"] == "debug" and event["kind"] in known:
            return
        size = event.get("size", 0)
        if key in self._found and self._found[key][0] <= size:
            return
        script = ""
        if event["case"] is not None:
            script = script_of(self._target, event["step"], event["case"])
        arguments = event.get("arguments", "")
        finding = Finding(event["kind"], event["path"], event["text"], arguments, script)
        self._found[key] = (size, finding)


def _in_debug_mode(key: str) -> str:
    """A call that ended a process would end the next, too."""
    step, case = json.loads(key)
    return json.dumps(["debug" if step == "numpy" else step, case])


def _plain(value: Any) -> Any:
    """A value of a user's case that JSON has no form for."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return [list(value.shape), str(value.dtype)]
    return str(value)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
