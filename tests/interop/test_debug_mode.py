# SPDX-License-Identifier: Apache-2.0
"""GRAPHFFI_DEBUG=1 finds on every path what no declaration can tell of a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi
import graphffi_jax

HERE = Path(__file__).resolve().parent
GOOD = [[2.0, 4.0, 6.0], [1.0, 1.0]]
# As in stray.cc: what the kernel does, and what is said of it.
STRAYS: dict[str, str] = {
    "behind": "result 'out': expected writes within its 12 bytes, got some up to 4 bytes after its "
    "end; mend the kernel, or the shape rule",
    "in front": "result 'out': expected writes within its 12 bytes, got some from 4 bytes before "
    "its beginning; mend the kernel, or the shape rule",
    "operand": "operand 'x': expected the call to leave it unchanged, got other contents; name it "
    "in mutates=, or let the kernel write into a copy",
    "kept": "operand 'x': expected no view of it after the call, got one that the kernel keeps; "
    "copy the data",
    "updated": "operand 'cache': expected writes within its 8 bytes, got some up to 8 bytes after "
    "its end; mend the kernel, or the shape rule",
    "workspace": "workspace: expected writes within its 16 bytes, got some up to 1 byte after its "
    "end; mend the kernel, or the shape rule",
}
MODES = {"good": 0, "behind": 1, "in front": 2, "operand": 3, "unwritten": 4, "kept": 5}
MODES |= {"updated": 6, "workspace": 7}


@pytest.fixture(
    scope="module",
    params=["host torch jax jitted node", pytest.param("compiled package", marks=pytest.mark.slow)],
)
def debugged(request: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What calls on some paths gave in each mode."""
    library = graphffi.cpp.build("stray", sources=[HERE / "stray.cc"])
    folder = str(tmp_path_factory.mktemp("debugged"))
    modes = " ".join(map(str, MODES.values()))
    script = [sys.executable, str(HERE / "debug_calls.py"), library, folder, request.param, modes]
    env = os.environ | {"GRAPHFFI_DEBUG": "1"}
    done = subprocess.run(script, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def at(mode: str, found: dict[str, Any]) -> dict[str, Any]:
    return {path: results[MODES[mode]] for path, results in found.items()}


def test_a_kernel_that_keeps_to_its_definition_runs_as_ever(debugged: dict[str, Any]) -> None:
    assert at("good", debugged) == dict.fromkeys(debugged, GOOD)


@pytest.mark.parametrize("mode", STRAYS)
def test_what_a_kernel_may_not_do_is_an_error_on_every_path(
    debugged: dict[str, Any], mode: str
) -> None:
    expected = ["RuntimeError", f"debugged::stray: {STRAYS[mode]}"]
    assert at(mode, debugged) == dict.fromkeys(debugged, expected)


def test_elements_that_nobody_wrote_are_nan_on_every_path(debugged: dict[str, Any]) -> None:
    for path, (out, _) in at("unwritten", debugged).items():
        assert out[:2] == [2.0, 4.0], path
        assert out[2] != out[2], path


def test_another_value_of_the_variable_is_refused() -> None:
    env = os.environ | {"GRAPHFFI_DEBUG": "yes"}
    done = subprocess.run(
        [sys.executable, "-c", "import graphffi"], env=env, capture_output=True, text=True
    )
    assert "ImportError: graphffi: GRAPHFFI_DEBUG: expected 0 or 1, got 'yes'" in done.stderr


def test_programs_in_cpp_report_another_value_of_the_variable() -> None:
    plugin = Path(graphffi_jax.__file__).with_name("lib") / "libgraphffi_jax.so"
    code = f"from ctypes import *; CDLL({graphffi.runtime_info().path!r}, RTLD_GLOBAL)\n"
    code += f"CDLL({str(plugin)!r})"
    env = os.environ | {"GRAPHFFI_DEBUG": "yes"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        0,
        "graphffi: GRAPHFFI_DEBUG: expected 0 or 1, got 'yes'\n",
    )
