# SPDX-License-Identifier: Apache-2.0
"""Runs other projects' tests on the bundled runtime.

    python tests/peers.py [--folder build/peers] [--write docs/versions.md] [suite ...]

Fetches source distributions. Tests in C++ run each in a process of its own, so that one that ends
the process leaves the others; needs g++ and googletest (Debian: libgtest-dev). Those in Python run
with a copy of apache-tvm-ffi's package whose library is the bundled runtime; xgrammar's need
PyTorch. A second run fetches nothing anew, and builds only what headers have changed for.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from sections import read_section, write_section

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "graphffi/_lib"
RELEASE = "0.1.15.post2"
TITLE = "Other projects' tests"
JAX_TVM_FFI = """from graphffi_jax import inspect, register_ffi_target


def registered_count():
    return inspect().registered


def get_last_workspace_peak():
    return inspect().last_workspace_peak
"""
HEAD = f"""## {TITLE}

`make peers` runs the tests of other projects on the bundled runtime, and writes this table:

- apache-tvm-ffi {RELEASE}: in C++ with its own headers, and those that need no `extra/` also with
  graphffi's; in Python with graphffi's library in the place of its own
- jax-tvm-ffi: they call `graphffi_jax.register_ffi_target`
- apache-tvm-ffi-orcjit: they load object files; one needs a GPU
- xgrammar: without 816 that fetch models, which need an account, and 57 that need CUDA or MLX

| tests | day | passed | failed |
|---|---|---|---|
"""
XGRAMMAR_NEEDS = ("pydantic", "sentencepiece", "tiktoken", "protobuf", "cohere_melody==0.13.0")
FLAGS = ("-std=c++17", "-O0", "-w", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1")


def fetch(folder: Path, package: str, release: str) -> Path:
    """The unpacked source distribution."""
    name = f"{package.replace('-', '_')}-{release}"
    if not (folder / name).exists():
        option = ("--no-deps", "--no-binary", package, "--dest", str(folder))
        requirement = f"{package}=={release}"
        subprocess.run([sys.executable, "-m", "pip", "download", *option, requirement], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / name


def compile_all(
    source: Path, files: Sequence[Path], include: Sequence[Path], folder: Path
) -> list[Path]:
    """The object file of each file."""
    folder.mkdir(exist_ok=True)
    options = [f"-I{path}" for path in include]
    changed = max(path.stat().st_mtime for header in include for path in header.rglob("*.h"))

    def compile_one(file: Path) -> Path:
        target = folder / (str(file.relative_to(source)).replace("/", "_") + ".o")
        if not target.exists() or target.stat().st_mtime < changed:
            command = ["g++", *FLAGS, *options, f"-I{file.parent}", "-c", str(file)]
            subprocess.run([*command, "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, files))


def build(source: Path, patterns: Sequence[str], include: Sequence[Path], folder: Path) -> Path:
    """The program of the tests, linked so that any libtvm_ffi.so serves it."""
    files = [path for pattern in patterns for path in sorted(source.glob(pattern))]
    files.append(source / "src/ffi/testing/testing.cc")
    objects = compile_all(source, files, include, folder)
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


def package_on_bundled(folder: Path) -> Path:
    """A folder with a copy of apache-tvm-ffi's Python package, whose library is graphffi's."""
    target = folder / "package"
    if not target.exists():
        installed = Path(str(metadata.distribution("apache-tvm-ffi").locate_file("")))
        shutil.copytree(installed / "tvm_ffi", target / "tvm_ffi")
        for info in installed.glob("apache_tvm_ffi-*.dist-info"):
            shutil.copytree(info, target / info.name)
        (target / "tvm_ffi/lib/libtvm_ffi.so").unlink()
        (target / "tvm_ffi/lib/libtvm_ffi.so").symlink_to(RUNTIME / "libtvm_ffi.so")
    return target


def install(folder: Path, *packages: str) -> Path:
    """A folder with the packages, which options of pip may stand among."""
    target = folder / packages[0]
    if not target.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
        subprocess.run([*command, *packages], check=True)
    return target


def run_pytest(tests: Path, paths: Sequence[Path], *arguments: str) -> tuple[int, list[str]]:
    """How many tests passed or failed, and the names of those that failed."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TVM_FFI_CUDA_ARCH_LIST": "9.0",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", str(tests)]
    result = subprocess.run(
        [*command, *arguments], cwd=tests, env=environment, capture_output=True, text=True
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S*?([\w.]+(?:::\S+)?)", result.stdout, re.MULTILINE)
    passed = re.search(r"(\d+) passed", result.stdout)
    return len(failed) + int(passed[1] if passed else 0), failed


def run_cpp(folder: Path) -> tuple[int, list[str]]:
    source = fetch(folder, "apache-tvm-ffi", RELEASE)
    include = [source / "include", source / "3rdparty/dlpack/include"]
    patterns = ["tests/cpp/test*.cc", "tests/cpp/extra/test*.cc"]
    return run_tests(build(source, patterns, include, folder / "cpp"))


def run_headers(folder: Path) -> tuple[int, list[str]]:
    source = fetch(folder, "apache-tvm-ffi", RELEASE)
    patterns, include = ["tests/cpp/test*.cc"], [ROOT / "csrc/include"]
    return run_tests(build(source, patterns, include, folder / "headers"))


def run_python(folder: Path) -> tuple[int, list[str]]:
    """Without tests that call compilers or read sources: those do not depend on the runtime."""
    tests = fetch(folder, "apache-tvm-ffi", RELEASE) / "tests/python"
    apart = re.compile("build|load_inline|example|stub|optional_torch|rust|cubin|exchange|gen_abi")
    files = [path.name for path in sorted(tests.glob("test_*.py")) if not apart.search(path.name)]
    return run_pytest(tests, [package_on_bundled(folder)], *files)


def run_jax(folder: Path) -> tuple[int, list[str]]:
    tests = fetch(folder, "jax-tvm-ffi", "0.1.3") / "tests"
    names = folder / "jax_names"
    names.mkdir(exist_ok=True)
    (names / "jax_tvm_ffi.py").write_text(JAX_TVM_FFI)
    plugins = [names, package_on_bundled(folder), ROOT, ROOT / "plugins/jax"]
    return run_pytest(tests, plugins, "-p", "graphffi", ".")


def run_orcjit(folder: Path) -> tuple[int, list[str]]:
    tests = fetch(folder, "apache-tvm-ffi", RELEASE) / "addons/tvm_ffi_orcjit/tests"
    orcjit = install(folder, "apache-tvm-ffi-orcjit==0.1.3", "--no-deps")
    return run_pytest(tests, [package_on_bundled(folder), orcjit], ".")


def run_xgrammar(folder: Path) -> tuple[int, list[str]]:
    """Without tests that need an account at Hugging Face, which fetch tokenizers of models."""
    tests = fetch(folder, "xgrammar", "0.2.8") / "tests"
    numpy = f"numpy=={metadata.version('numpy')}"
    needs = install(folder, "transformers", *XGRAMMAR_NEEDS, numpy)
    library = install(folder, "xgrammar==0.2.8", "--no-deps")
    paths = [package_on_bundled(folder), library, needs]
    return run_pytest(tests, paths, "-m", "not hf_token_required", ".")


SUITES = {
    "cpp": ("apache-tvm-ffi's in C++", run_cpp),
    "headers": ("apache-tvm-ffi's in C++ with graphffi's headers", run_headers),
    "python": ("apache-tvm-ffi's in Python", run_python),
    "jax": ("jax-tvm-ffi's on the CPU", run_jax),
    "orcjit": ("apache-tvm-ffi-orcjit's", run_orcjit),
    "xgrammar": ("xgrammar's", run_xgrammar),
}


def read_rows(path: Path) -> dict[str, str]:
    """The rows of a former run, by what was tested."""
    lines = read_section(path, TITLE).splitlines()
    rows = [line for line in lines if re.match(r"\| \w.*\| \d{4}-", line)]
    return {row.split("|")[1].strip(): row for row in rows}


def run_suite(suite: str, folder: Path) -> tuple[str, str]:
    """What was tested, and its row."""
    title, run = SUITES[suite]
    total, failed = run(folder)
    day = datetime.datetime.now(datetime.timezone.utc).date()
    names = ", ".join(f"`{name}`" for name in failed[:12])
    more = f" and {len(failed) - 12} more" if len(failed) > 12 else ""
    return title, f"| {title} | {day} | {total - len(failed)} of {total} | {names}{more} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.write) if options.write else {}
    for suite in options.suites or SUITES:
        title, row = run_suite(suite, folder)
        rows[title] = row
        print(row, flush=True)
        if options.write:
            write_section(options.write, HEAD + "\n".join(rows.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
