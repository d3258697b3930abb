# SPDX-License-Identifier: Apache-2.0
"""The processors that libraries are made for, and the programs that make code for them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import graphffi
from graphffi.plugin import build_archive
from graphffi_torch._standalone.externs import ARCHIVE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Isa:
    """Instructions that a library may use.

    Args:
        flags: For the compiler; without any, those that torch chose for this machine.
        options: For Inductor.
        machine: Whose instructions they are, as `platform.machine` names it.
    """

    flags: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    machine: str = platform.machine()


ISAS: Final[dict[str, Isa]] = {
    "native": Isa(),
    "avx2": Isa(("-march=x86-64-v3",), {"cpp.simdlen": 256}, "x86_64"),
    "avx512": Isa(("-march=x86-64-v4",), {"cpp.simdlen": 512}, "x86_64"),
    # Vectors are the compiler's: torch has none of other machines than the one it runs on.
    "aarch64": Isa(("-march=armv8-a",), {"cpp.simdlen": 1}, "aarch64"),
}


def cross_compiler(machine: str) -> str | None:
    """The compiler for another machine: `CXX` if it is one, or that of the distribution's package.

    Raises:
        RuntimeError: There is none.
    """
    if machine == platform.machine():
        return None
    named = os.environ.get("CXX")
    if named and shutil.which(named) and _ask(named, "-dumpmachine").startswith(machine):
        return named
    found = f"{machine}-linux-gnu-g++"
    if shutil.which(found) is None:
        raise RuntimeError(
            f"graphffi_torch: to_library: expected the compiler '{found}', got none; install it "
            f"(Debian's package g++-{machine}-linux-gnu), or name another one in CXX"
        )
    return found


def _ask(compiler: str, option: str) -> str:
    command = [compiler, option]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Toolchain:
    """The compiler and what it links, for this machine or another one.

    Args:
        isa: What the code may use.
        default: The compiler of this machine where `CXX` names none.

    Raises:
        RuntimeError: As `cross_compiler`.
    """

    def __init__(self, isa: Isa, default: str) -> None:
        self._machine = isa.machine
        self.compiler = cross_compiler(isa.machine) or os.environ.get("CXX") or default

    @property
    def _is_cross(self) -> bool:
        return self._machine != platform.machine()

    def undefined(self, *files: Path) -> set[str]:
        """Names that object files or archives do not define."""
        nm = _ask(self.compiler, "-print-prog-name=nm")
        command = [nm, "--undefined-only", "--format=posix", *map(str, files)]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"^(\w+) U", listed, re.MULTILINE))

    def archive(self) -> Path:
        """The part of each library that is graphffi's. For another machine, it is compiled once."""
        if not self._is_cross:
            return ARCHIVE
        return build_archive(self._machine, self.compiler, ARCHIVE.read_bytes())

    def runtime(self, folder: Path, names: set[str]) -> Path:
        """A libtvm_ffi.so to link: for another machine, one that has the names only."""
        if not self._is_cross:
            return Path(graphffi.__file__).parent / "_lib/libtvm_ffi.so"
        path = folder / "libtvm_ffi.so"
        code = "".join(f"void {name}(void) {{}}\n" for name in sorted(names))
        flags = ("-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-x", "c", "-")
        subprocess.run([self.compiler, *flags, "-o", str(path)], input=code, text=True, check=True)
        return path
