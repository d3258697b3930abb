# SPDX-License-Identifier: Apache-2.0
"""Runs other projects' tests of TVM FFI's C++ ABI on the bundled runtime.

    python tests/peers.py [--folder build/peers] [--write docs/versions.md]

Fetches apache-tvm-ffi's source distribution, builds its C++ tests with its own headers, and runs
each test in a process of its own, so that one that ends the process leaves the others. Needs g++
and googletest (Debian: libgtest-dev). A second run builds nothing anew.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "graphffi/_lib"
RELEASE = "0.1.15.post2"
HEAD = f"""
## Other projects' tests

`make peers` writes this table: tests of apache-tvm-ffi
{RELEASE}, built with its headers, run on the bundled runtime.

| tests | day | passed | failed |
|---|---|---|---|
"""
FLAGS = ("-std=c++17", "-O0", "-w", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1")


def fetch(folder: Path) -> Path:
    """The unpacked source distribution."""
    source = folder / f"apache_tvm_ffi-{RELEASE}"
    if not source.exists():
        requirement = f"apache-tvm-ffi=={RELEASE}"
        option = ("--no-deps", "--no-binary", "apache-tvm-ffi", "--dest", str(folder))
        subprocess.run([sys.executable, "-m", "pip", "download", *option, requirement], check=True)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
    return source


def compile_all(source: Path, files: Sequence[Path], folder: Path) -> list[Path]:
    """The object file of each file."""
    include = [f"-I{source}/{path}" for path in ("include", "3rdparty/dlpack/include")]

    def compile_one(file: Path) -> Path:
        target = folder / (str(file.relative_to(source)).replace("/", "_") + ".o")
        if not target.exists():
            command = ["g++", *FLAGS, *include, f"-I{file.parent}", "-c", str(file)]
            subprocess.run([*command, "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, files))


def build(source: Path, folder: Path) -> Path:
    """The test program, linked so that any libtvm_ffi.so serves it."""
    tests = source / "tests/cpp"
    files = sorted([*tests.glob("test*.cc"), *tests.glob("extra/test*.cc")])
    objects = compile_all(source, [*files, source / "src/ffi/testing/testing.cc"], folder)
    program = folder / "tests"
    link = [f"-L{RUNTIME}", "-ltvm_ffi", "-lgtest", "-lgtest_main", "-lpthread"]
    undefined = "-Wl,--unresolved-symbols=ignore-all"
    subprocess.run(["g++", *map(str, objects), undefined, *link, "-o", str(program)], check=True)
    return program


def list_tests(program: Path, environment: dict[str, str]) -> list[str]:
    command = [str(program), "--gtest_list_tests"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    names, suite = [], ""
    for line in result.stdout.splitlines():
        if re.match(r"\w[\w/]*\.", line):
            suite = line.split()[0]
        elif line.startswith("  "):
            names.append(suite + line.split()[0])
    return [name for name in names if "DISABLED_" not in name]


def run_tests(program: Path) -> tuple[int, list[str]]:
    """How many tests there are, and the names of those that fail."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(RUNTIME)}
    names = list_tests(program, environment)

    def passes(name: str) -> bool:
        command = [str(program), f"--gtest_filter={name}"]
        result = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        return result.returncode == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(passes, names))
    return len(names), [n for n, passed in zip(names, results, strict=True) if not passed]


def write_table(path: Path, row: str) -> None:
    """Writes the section of this table, behind what stands before it."""
    before = path.read_text().partition(HEAD.splitlines()[1])[0].rstrip("\n")
    path.write_text(before + "\n" + HEAD + row + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    total, failed = run_tests(build(fetch(folder), folder))
    day = datetime.datetime.now(datetime.timezone.utc).date()
    names = ", ".join(f"`{name}`" for name in failed)
    row = f"| apache-tvm-ffi's C++ tests | {day} | {total - len(failed)} of {total} | {names} |"
    if options.write:
        write_table(options.write, row)
    print(row)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
