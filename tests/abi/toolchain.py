# SPDX-License-Identifier: Apache-2.0
"""Compiles C and C++ for tests, and finds the runtimes that they run on."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "csrc/include"
# With instrumentation, gcc believes that the payload of a std::optional may be uninitialised.
SANITIZERS = {
    "": (),
    "address": (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-Wno-maybe-uninitialized",
    ),
    "thread": ("-fsanitize=thread", "-Wno-maybe-uninitialized"),
}
# What the programs are built with, set by `make sanitize`.
SANITIZE = os.environ.get("GRAPHFFI_SANITIZE", "")
COMPILERS = {".c": ("gcc", "-std=c11"), ".cc": ("g++", "-std=c++17")}
# Most of the time goes into compiling: sanitizers name lines by -g1, and -O0 compiles in half the
# time of -O1, which finds more to warn of.
FLAGS = (
    "-O0" if SANITIZE else "-O1",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    f"-I{ROOT}/tests/call/cpp",
)


def runtimes_in_use() -> tuple[str, ...]:
    """The runtimes that this run of the tests is about: both, if nothing chooses."""
    if SANITIZE:
        return ("bundled",)
    known = ("bundled", "apache")
    asked = os.environ.get("GRAPHFFI_RUNTIME", "")
    return (asked,) if asked in known else known


RUNTIMES = runtimes_in_use()


def runtime_path(name: str) -> Path:
    """The library of a runtime, by its name; skips the test where it is not there."""
    if name == "bundled":
        folder = f"build/sanitize/{SANITIZE}" if SANITIZE else "graphffi/_lib"
        path = ROOT / folder / "libtvm_ffi.so"
    else:
        spec = importlib.util.find_spec("tvm_ffi")
        if spec is None or spec.origin is None:
            pytest.skip("apache-tvm-ffi is not installed")
        path = Path(spec.origin).parent / "lib/libtvm_ffi.so"
    if not path.exists():
        pytest.skip(f"{path.name} of the {name} runtime was not built")
    return path


def cases_of(source: Path) -> list[str]:
    """The names of the TESTs of a C++ test program."""
    return re.findall(r"^TEST\((\w+)\)", source.read_text(), re.MULTILINE)


class Toolchain:
    """Compiles into one folder, each thing once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def library(
        self,
        source: str | Path,
        *,
        language: str = "cc",
        flags: Sequence[str] = (),
        include: Path = INCLUDE,
    ) -> Path:
        """A shared library of a source text or file, which names no runtime that it needs.

        Args:
            source: The text, or the path of a file.
            language: ``cc`` or ``c``, for a text.
            flags: More options of the compiler and linker.
            include: The folder of TVM FFI's headers: ours, or those of another release.
        """
        flags = (f"-I{include}", "-shared", "-fPIC", *flags)
        return self._compile(source, language, flags, ".so")

    def program(
        self, source: str | Path, *, language: str = "cc", flags: Sequence[str] = ()
    ) -> Path:
        """A program that needs libtvm_ffi.so and gets the one that ``run`` names.

        It is built with the sanitizers of this run, if there are any.
        """
        # Linked with a stand-in of the right name, so that one program serves every runtime.
        library = (f"-L{self._stand_in()}", "-ltvm_ffi")
        flags = (f"-I{INCLUDE}", *SANITIZERS[SANITIZE], *flags, *library)
        return self._compile(source, language, flags, "")

    def unit(self, sources: Sequence[Path], *, flags: Sequence[str] = ()) -> Path:
        """Sources compiled as one, for programs to link; with the sanitizers of this run."""
        text = "".join(f'#include "{source}"\n' for source in sources)
        return self._compile(
            text, "cc", ("-c", f"-I{INCLUDE}", *SANITIZERS[SANITIZE], *flags), ".o"
        )

    def run(
        self, program: Path, *arguments: str, runtime: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program on a runtime; with ``check``, it must succeed."""
        folder = runtime_path(runtime).parent
        environment = {"LD_LIBRARY_PATH": str(folder), "GRAPHFFI_TEST_RUNTIME": runtime}
        result = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | environment,
        )
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    def _stand_in(self) -> Path:
        folder = self.folder / "stand_in"
        folder.mkdir(exist_ok=True)
        if not (folder / "libtvm_ffi.so").exists():
            headers = [INCLUDE / "tvm/ffi/c_api.h", INCLUDE / "tvm/ffi/extra/c_env_api.h"]
            text = "".join(header.read_text() for header in headers)
            names = set(re.findall(r"^TVM_FFI_DLL\s[^;(]*?\b(TVMFFI\w+)\(", text, re.MULTILINE))
            names.add(
                "_ZN3tvm3ffi6Module19VisitContextSymbolsERKNS0_13TypedFunctionIFvNS0_6StringEPvEEE"
            )
            source = "".join(f"void {name}(void) {{}}\n" for name in sorted(names))
            flags = ["-shared", "-fPIC", "-Wl,-soname,libtvm_ffi.so", "-x", "c", "-"]
            command = ["gcc", *flags, "-o", str(folder / "libtvm_ffi.so")]
            subprocess.run(command, input=source, text=True, check=True)
        return folder

    def _compile(
        self, source: str | Path, language: str, flags: Sequence[str], suffix: str
    ) -> Path:
        if isinstance(source, Path):
            name, file, text = source.stem, source, source.read_text()
        else:
            name, file, text = "snippet", None, source
        digest = hashlib.sha256("\0".join([text, language, *flags]).encode()).hexdigest()[:16]
        if file is None:
            file = self.folder / f"{name}_{digest}.{language}"
            file.write_text(text)
        target = self.folder / f"{name}_{digest}{suffix}"
        if not target.exists():
            command = [*COMPILERS[file.suffix], *FLAGS, str(file), *flags, "-o", str(target)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stderr
        return target
