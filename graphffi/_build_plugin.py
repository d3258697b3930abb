# SPDX-License-Identifier: Apache-2.0
"""Builds the PyTorch plugin for the torch of this environment, from the sources in a wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

from ._location import plugin_cache, torch_build
from ._runtime import runtime_info

_SUBJECT = "graphffi: build-plugin"


def build_plugin() -> Path:
    """Compiles the plugin into the user's cache, where `graphffi_torch` looks for it.

    Needs a C++ compiler, and `cmake` and `ninja`, which pip installs; no torch is imported.
    `GRAPHFFI_JOBS` limits the parallel jobs.

    Returns:
        The folder of the build.

    Raises:
        RuntimeError: Something that it needs is missing, or the compiler failed; its output has
            been shown.
    """
    torch = _find_torch()
    tools = {name: _find_tool(name) for name in ("cmake", "ninja")}
    cache = plugin_cache()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made, build = Path(scratch, "made"), str(Path(scratch, "build"))
        configure = [
            *(
                tools["cmake"],
                "-S",
                str(_source()),
                "-B",
                str(Path(scratch, "build")),
                "-G",
                "Ninja",
            ),
            f"-DCMAKE_MAKE_PROGRAM={tools['ninja']}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            "-DGRAPHFFI_BUILD_CORE=OFF",
            "-DGRAPHFFI_BUILD_TORCH=ON",
            f"-DGRAPHFFI_RUNTIME={runtime_info().path}",
            f"-DGRAPHFFI_TORCH_ROOT={torch}",
            f"-DGRAPHFFI_TORCH_OUTPUT={made}",
        ]
        _run(configure)
        jobs = os.environ.get("GRAPHFFI_JOBS") or str(os.cpu_count() or 1)
        _run([tools["cmake"], "--build", build, "--parallel", jobs])
        target = torch_build(cache, metadata.version("torch"))
        shutil.rmtree(target, ignore_errors=True)
        made.replace(target)
    return target


def _source() -> Path:
    installed = Path(__file__).parent / "_source"
    return installed if installed.is_dir() else Path(__file__).parents[1]


def _find_torch() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{_SUBJECT}: expected torch in {sys.prefix}, got none; install it")
    return Path(spec.origin).parent


def _find_tool(name: str) -> str:
    folders = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        raise RuntimeError(
            f"{_SUBJECT}: expected the program {name!r}, got none; "
            f"{sys.executable} -m pip install cmake ninja"
        )
    return path


def _run(command: list[str]) -> None:
    # What it says goes to stderr: stdout may have to be JSON.
    status = subprocess.run(command, check=False, stdout=2).returncode
    if status != 0:
        name = Path(command[0]).name
        raise RuntimeError(f"{_SUBJECT}: {name} failed with exit status {status}; see above")
