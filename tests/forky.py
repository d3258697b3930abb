# SPDX-License-Identifier: Apache-2.0
"""Builds and tests with Debian's next release, forky: Python 3.14 and gcc 16.

    python tests/forky.py [--write docs/versions.md] [name ...]

Debootstrap fetches the system into a folder, build/forky or the one that the variable FORKY names.
That needs root; nothing is installed elsewhere. There, tests/matrix.py runs its releases for Python
3.14, or those that are named, without the slow tests. The system's Python also runs outside of the
system: tests/wheels.py builds a wheel with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import matrix
from pythons import FORKY, FORKY_PYTHON

PYTHON = f"/usr/bin/python{FORKY_PYTHON}"
PACKAGES = (*(f"python{FORKY_PYTHON}{part}" for part in ("", "-dev", "-venv")), "g++", "git")
MIRROR = "http://deb.debian.org/debian"
SCRIPT = "/usr/share/debootstrap/scripts/sid"  # which is that of all later releases
LIBRARIES = f"{platform.machine()}-linux-gnu"

# Runs a program in the system, and in the working folder, that of the sources. The system has this
# machine's certificates, and its name servers by debootstrap. Mounts end with the program.
ENTER = """set -e
system=$1; shift
for folder in /dev /proc /sys /etc/ssl "$PWD"; do
  mkdir -p "$system$folder"
  mount --rbind "$folder" "$system$folder"
done
exec chroot "$system" env --chdir="$PWD" "$@"
"""


def make_system(system: Path) -> None:
    """Fetches the system, unless it is there.

    Raises:
        SystemExit: It can't be had.
    """
    if system.exists():
        return
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise SystemExit("forky: expected root and debootstrap; apt-get install debootstrap")
    scratch = system.with_name(f"{system.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    options = ("--variant=minbase", f"--include={','.join(PACKAGES)}")
    matrix.must_run("debootstrap", *options, "forky", scratch, MIRROR, SCRIPT, cwd=matrix.ROOT)
    scratch.rename(system)


def enter(system: Path, *command: str | Path, **environment: str) -> int:
    """The exit status of a program in the system."""
    unshare = ["unshare", "--mount", "bash", "-c", ENTER, "enter", system, *command]
    changed = {"PATH": "/usr/sbin:/usr/bin", **environment}
    return subprocess.run(unshare, cwd=matrix.ROOT, env=os.environ | changed).returncode


def make_python_for_outside(system: Path) -> None:
    """Makes the program that runs the system's Python with the system's loader and libraries.

    Raises:
        SystemExit: It doesn't run.
    """
    (loader,) = system.glob("lib*/ld-linux-*")
    program = Path(f"{system}{PYTHON}-outside")
    options = f'--library-path {system}/usr/lib/{LIBRARIES} --argv0 "$0"'
    program.write_text(f'#!/bin/sh\nexec {loader} {options} {system}{PYTHON} "$@"\n')
    program.chmod(0o755)
    # A header of Python's names one that only the system's compiler finds.
    headers = system / f"usr/include/python{FORKY_PYTHON}/{LIBRARIES}"
    headers.mkdir(exist_ok=True)
    link = headers / f"python{FORKY_PYTHON}"
    if not link.exists():
        link.symlink_to(f"../../{LIBRARIES}/{link.name}")
    matrix.must_run(program, "-c", "import ssl, ctypes", cwd=matrix.ROOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [release.name for release in matrix.RELEASES if release.python == FORKY_PYTHON]
    parser.add_argument("names", nargs="*", help=", ".join(names))
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    make_system(FORKY)
    make_python_for_outside(FORKY)
    write = ("--write", options.write.resolve()) if options.write else ()
    tests = (PYTHON, "tests/matrix.py", *write, *(options.names or names))
    return enter(FORKY, *tests, PYTEST_ADDOPTS="-m 'not slow'")


if __name__ == "__main__":
    sys.exit(main())
