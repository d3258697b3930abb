# SPDX-License-Identifier: Apache-2.0
"""Builds the PyTorch plugin for the torch of this environment, from the sources in a wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from .._values.runtime import runtime_info
from .cache import building, locked, make_folder, mark_used
from .config import PACKAGE
from .location import cache_folder, plugin_cache, torch_build
from .toolchain import num_jobs

_SUBJECT = "graphffi: build-plugin"
_ARCHIVE = "standalone/libgraphffi_standalone.a"


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
    _find_torch()  # whose error says what to do, unlike that of the metadata
    target = torch_build(plugin_cache(), metadata.version("torch"))
    with _built("all") as made:
        shutil.rmtree(target, ignore_errors=True)
        made.replace(target)
    return target


def build_archive(machine: str, compiler: str, version: bytes) -> Path:
    """Compiles what libraries of compiled graphs contain of the plugin for another machine, once.

    Args:
        machine: As `platform.machine` names it.
        compiler: Whose code runs on that machine.
        version: Anything that is another one where the plugin's sources are.

    Returns:
        The archive, in the user's cache.

    Raises:
        RuntimeError: As `build_plugin`.
    """
    digest = hashlib.sha256(version + compiler.encode()).hexdigest()[:16]
    folder = cache_folder() / f"standalone-{machine}-{digest}"
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            system = ("-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={machine}")
            with _built("graphffi_standalone", *system, f"-DCMAKE_CXX_COMPILER={compiler}") as made:
                made.replace(folder)
    mark_used(folder)
    return folder / _ARCHIVE


@contextmanager
def _built(what: str, *options: str) -> Iterator[Path]:
    """A folder with what CMake made of a target of the plugin; it may be moved."""
    torch = _find_torch()
    tools = {name: _find_tool(name) for name in ("cmake", "ninja")}
    cache = plugin_cache()
    make_folder(cache)
    with building(cache) as scratch:
        made, build = scratch / "made", str(scratch / "build")
        configure = [
            *(tools["cmake"], "-S", str(_source()), "-B", build, "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={tools['ninja']}",
            f"-DPython3_EXECUTABLE={sys.executable}",
            "-DGRAPHFFI_BUILD_CORE=OFF",
            "-DGRAPHFFI_BUILD_TORCH=ON",
            f"-DGRAPHFFI_RUNTIME={runtime_info().path}",
            f"-DGRAPHFFI_TORCH_ROOT={torch}",
            f"-DGRAPHFFI_TORCH_OUTPUT={made}",
            *options,
        ]
        _run(configure)
        jobs = str(num_jobs())
        _run([tools["cmake"], "--build", build, "--target", what, "--parallel", jobs])
        yield made


def _source() -> Path:
    installed = PACKAGE / "_source"
    return installed if installed.is_dir() else PACKAGE.parent


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
    # Its output goes to stderr, because stdout may be JSON.
    status = subprocess.run(command, check=False, stdout=2).returncode
    if status != 0:
        name = Path(command[0]).name
        raise RuntimeError(f"{_SUBJECT}: {name} failed with exit status {status}; see above")
