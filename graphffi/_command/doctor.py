# SPDX-License-Identifier: Apache-2.0
"""``graphffi doctor``: what is installed and in use, and what is wrong with it."""

from __future__ import annotations

import ctypes
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Final

from .._build.config import PACKAGE
from .._build.location import cache_folder
from .._build.toolchain import COMPILERS, find_compiler, version_of
from .._frameworks.plugins import PLUGINS
from .._values.runtime import runtime_info
from .._version import __version__
from .outcome import Outcome

_REASONS: Final = {
    "adopted": "it was loaded before graphffi",
    "apache": "apache-tvm-ffi is installed, or GRAPHFFI_RUNTIME asks for it",
    "bundled": "GRAPHFFI_RUNTIME asks for it, or no apache-tvm-ffi is installed",
    "path": "GRAPHFFI_RUNTIME names it",
}

_TVM: Final = (0, 27)  # the oldest that graphffi_tvm serves


@dataclass(frozen=True)
class Fact:
    """Something that the command found.

    Args:
        name: Of the part.
        text: What is there.
        problem: What is wrong with it and what to do, or nothing.
    """

    name: str
    text: str
    problem: str = ""


def examine() -> Outcome:
    """Looks at all parts; the status is 1 if something is wrong."""
    facts = [
        *_own(),
        *_plugins(),
        _tvm(),
        *_runtimes(),
        *_compilers(),
        _gpu(),
        *_caches(),
        *_variables(),
    ]
    problems = [fact.problem for fact in facts if fact.problem]
    lines = [f"{fact.name:<15} {fact.text}" for fact in facts]
    lines += ["", *(f"problem: {problem}" for problem in problems)] if problems else []
    found = {
        "facts": [{"name": f.name, "text": f.text, "problem": f.problem} for f in facts],
        "problems": problems,
    }
    return Outcome(found, lines, status=1 if problems else 0)


def _own() -> Iterator[Fact]:
    runtime = runtime_info()
    yield Fact("graphffi", f"{__version__}, {PACKAGE}")
    yield Fact("runtime", f"{runtime.kind}: {_REASONS[runtime.kind]}")
    yield Fact("", f"TVM FFI {'.'.join(map(str, runtime.version))}, {runtime.path}")
    for peer in ("apache-tvm-ffi", "jax-tvm-ffi"):
        yield Fact(peer, _version(peer))


def _plugins() -> Iterator[Fact]:
    for framework, package in (*PLUGINS.items(), ("onnxruntime", "graphffi_onnxruntime")):
        if util.find_spec(framework) is None:
            yield Fact(framework, "not installed")
            continue
        version = _version(framework)
        spec = util.find_spec(package)
        if spec is None or spec.origin is None:
            problem = f"{framework}: expected the plugin {package}, got none; reinstall graphffi"
            yield Fact(framework, f"{version}, plugin not installed", problem)
            continue
        try:
            import_module(package)
            library = _library_of(package, spec.origin)
        except Exception as failure:
            problem = f"{package}: {type(failure).__name__}: {failure}"
            yield Fact(framework, f"{version}, plugin does not load", problem)
        else:
            yield Fact(framework, f"{version}, plugin {library}, loads")


def _tvm() -> Fact:
    """Apache TVM is not imported for that: it takes seconds, and has a runtime of its own."""
    version = _version("apache-tvm")
    if version == "not installed" or util.find_spec("graphffi_tvm") is None:
        return Fact("apache-tvm", version)
    if runtime_info().kind == "bundled":
        return Fact("apache-tvm", f"{version}, graphffi_tvm needs GRAPHFFI_RUNTIME=apache")
    release = tuple(map(int, re.findall(r"\d+", version)[:2]))
    problem = f"graphffi_tvm: expected apache-tvm 0.27 or newer, got {version}; upgrade it"
    return Fact("apache-tvm", f"{version}, plugin graphffi_tvm", problem if release < _TVM else "")


def _library_of(package: str, origin: str) -> str:
    """The file of a plugin's library, which is loaded; sessions of ONNX Runtime load theirs."""
    name = f"lib{package}.so"
    if package == "graphffi_onnxruntime":
        ctypes.CDLL(os.path.join(os.path.dirname(origin), "lib", name))
    found = [path for path in _mapped_files() if path.endswith(f"/{name}")]
    if not found:
        raise RuntimeError(f"expected {name} in this process, found none; reinstall graphffi")
    return found[0]


def _runtimes() -> Iterator[Fact]:
    """The runtimes in this process, once the plugins have loaded what they need."""
    loaded = sorted({path for path in _mapped_files() if "libtvm_ffi" in os.path.basename(path)})
    if len(loaded) > 1:
        problem = (
            f"expected one runtime in a process, got {', '.join(loaded)}; import graphffi first, "
            "or set GRAPHFFI_RUNTIME to the one that the others bring"
        )
        yield Fact("runtimes", f"{len(loaded)} in this process", problem)


def _mapped_files() -> Iterator[str]:
    with open("/proc/self/maps") as maps:
        for line in maps:
            _, slash, path = line.rstrip("\n").partition("/")
            yield slash + path


def _compilers() -> Iterator[Fact]:
    for variable in COMPILERS:
        try:
            command = find_compiler(variable)
        except RuntimeError as missing:
            is_needed = variable == "CXX" or variable in os.environ
            yield Fact(variable, "none", str(missing) if is_needed else "")
        else:
            yield Fact(variable, f"{' '.join(command)}: {_first_line(command)}")


def _first_line(command: tuple[str, ...]) -> str:
    lines = version_of(command).strip().splitlines()
    return lines[-1 if "nvcc" in command[0] else 0] if lines else "says no version"


def _gpu() -> Fact:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Fact("gpu", "no CUDA driver")
    status = driver.cuInit(0)
    if status != 0:
        problem = f"the CUDA driver does not start: cuInit gave {status}; see nvidia-smi"
        return Fact("gpu", "CUDA driver without a device", "" if status == 100 else problem)
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for device in range(count.value):
        name = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(name, 128, device)
        names.append(name.value.decode())
    return Fact("gpu", ", ".join(names) or "CUDA driver without a device")


def _caches() -> Iterator[Fact]:
    folder = cache_folder()
    is_readable = os.access(folder, os.R_OK | os.X_OK)
    sizes = list(_sizes_of_files(folder)) if is_readable else []
    # Of a folder that this user may not look at, as if it were not there.
    place = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    problem = f"cache {folder}: expected a folder to write to; set GRAPHFFI_CACHE_DIR to one"
    is_writable = os.access(place, os.W_OK)
    text = f"{folder}, {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB"
    yield Fact("cache", text, "" if is_writable else problem)


def _sizes_of_files(folder: Path) -> Iterator[int]:
    for file in folder.rglob("*"):
        try:
            status = file.stat()
        except OSError:  # removed since then, by a build
            continue
        if stat.S_ISREG(status.st_mode):
            yield status.st_size


def _variables() -> Iterator[Fact]:
    for name, value in sorted(os.environ.items()):
        if name.startswith("GRAPHFFI_"):
            yield Fact(name, value)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
