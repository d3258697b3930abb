# SPDX-License-Identifier: Apache-2.0
"""Debian's Python for aarch64: what a wheel is cross-built against, and runs in under qemu.

Needs Debian 12's packages g++-aarch64-linux-gnu and qemu-user; Debian's arm64 packages are fetched
into a folder, nothing is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = "3.11"  # Debian 12's
PACKAGES = (f"python{PYTHON}", f"libpython{PYTHON}-dev", "libstdc++6")
COMPILERS = {"CC": "aarch64-linux-gnu-gcc", "CXX": "aarch64-linux-gnu-g++"}
EMULATOR = "qemu-aarch64"
PIP_OPTIONS = (
    "--only-binary=:all:",
    f"--python-version={PYTHON}",
    *(f"--platform=manylinux_2_{n}_aarch64" for n in (28, 27, 26, 17)),
)

TOOLCHAIN = """set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER {CC})
set(CMAKE_CXX_COMPILER {CXX})
set(Python3_INCLUDE_DIR {root}/usr/include/python{python})
set(CMAKE_C_FLAGS_INIT "-idirafter {root}/usr/include")
set(CMAKE_CXX_FLAGS_INIT "-idirafter {root}/usr/include")
"""


class System:
    """The files of a Debian for aarch64 in a folder.

    Raises:
        SystemExit: A program is missing, or Debian's packages can't be had.
    """

    def __init__(self, folder: Path) -> None:
        missing = [p for p in (*COMPILERS.values(), EMULATOR, "apt-get") if not shutil.which(p)]
        if missing:
            raise SystemExit(
                f"aarch64: expected {', '.join(missing)} on the PATH, got none; "
                "apt-get install g++-aarch64-linux-gnu qemu-user"
            )
        self._folder = folder
        self._root = folder / "root"
        if not self._root.exists():
            self._unpack()

    def _unpack(self) -> None:
        """Fetches the packages and what they need, as apt does for an empty system."""
        apt = self._folder / "apt"
        shutil.rmtree(apt, ignore_errors=True)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (apt / name).mkdir(parents=True)
        (apt / "status").touch()
        options = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Install-Recommends": "false",
            "Debug::NoLocking": "true",
            "Dir::State": apt / "state",
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
        }
        get = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
        subprocess.run([*get, "update"], check=True)
        subprocess.run([*get, "install", "--yes", "--download-only", *PACKAGES], check=True)
        scratch = self._folder / "unpacked"
        for package in sorted((apt / "cache/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True)
        scratch.rename(self._root)

    def build_environment(self) -> dict[str, str]:
        """What makes CMake and setuptools of a Python of this machine build for the other one."""
        toolchain = self._folder / "toolchain.cmake"
        toolchain.write_text(TOOLCHAIN.format(root=self._root, python=PYTHON, **COMPILERS))
        facts = self._folder / "sysconfig"
        facts.mkdir(exist_ok=True)
        name = "_sysconfigdata__aarch64-linux-gnu"
        shutil.copy(self._root / f"usr/lib/python{PYTHON}/{name}.py", facts)
        return {
            "CMAKE_TOOLCHAIN_FILE": str(toolchain),
            "PYTHONPATH": str(facts),
            "_PYTHON_SYSCONFIGDATA_NAME": name,
            "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        }

    def install(self, wheel: Path, *packages: str) -> tuple[Path, Path]:
        """An emulated Python with a wheel and packages of the index, and compilers for it."""
        site = self._folder / "site"
        shutil.rmtree(site, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", site)
        subprocess.run([*pip, *PIP_OPTIONS, wheel, *packages], check=True)
        programs = self._folder / "bin"
        programs.mkdir(exist_ok=True)
        for name, compiler in (("cc", "CC"), ("gcc", "CC"), ("c++", "CXX"), ("g++", "CXX")):
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(str(shutil.which(COMPILERS[compiler])))
        python = programs / "python"
        emulated = f"{shutil.which(EMULATOR)} -L {self._root} {self._root}/usr/bin/python{PYTHON}"
        path = f"{site}${{PYTHONPATH:+:$PYTHONPATH}}"
        python.write_text(f'#!/bin/sh\nexport PYTHONPATH={path}\nexec {emulated} "$@"\n')
        python.chmod(0o755)
        # Programs that start Python again get the emulated one.
        (site / "sitecustomize.py").write_text(f"import sys\nsys.executable = '{python}'\n")
        return python, programs
