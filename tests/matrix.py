# SPDX-License-Identifier: Apache-2.0
"""Runs the tests with older and newer frameworks, each in an environment of its own.

    python tests/matrix.py [--folder build/matrix] [--write docs/versions.md] [name ...]

Every release gets a virtual environment, and every release of torch a copy of the source tree, in
which graphffi is built. Releases of JAX share one build of the JAX plugin, those of ONNX Runtime
one of all. All of it is used again by the next run. Without names, all releases but those of
tests/forky.py are tested; --write keeps the table's other rows. Frameworks come from the package
index: some builds of torch take several GB.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pythons import FORKY_PYTHON, find_python

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("cmake", "ninja", "pybind11>=3", "setuptools>=77", "wheel", "pytest>=8")
OPTIONAL = ("ml_dtypes", "array-api-compat")
PEERS = ("apache-tvm-ffi==0.1.15.post2",)
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
# Libraries may write more when the process ends.
SUMMARY = re.compile(r"^(?:\d+ \w+(?:, )?)+ in \d.*$", re.M)
SKIPPED = re.compile(r"^SKIPPED \[\d+\] \S+: (.*)$", re.M)
PLUGINS = ("torch", "jax", "onnxruntime")
PLUGIN = Path("plugins/jax/graphffi_jax/lib")
HEAD = """# Versions

`make matrix` runs the tests of each plugin with the releases below, and writes this table. The
machine has no GPU: [tests on one](#on-a-gpu) are run apart. The PyTorch plugin is built for each
release; one build of the JAX plugin serves all, and so does one of the ONNX Runtime plugin. The
rows of "jax cuda13" compile programs for a GPU, but do not run them. `make forky` writes the rows
of "forky", Debian's next release: with its Python and gcc 16, and without the tests that take long.

| release | Python | day | bundled runtime | apache-tvm-ffi's | skipped, because |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Release:
    """One release of a framework, what else it needs, and the tests of its plugin."""

    name: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    python: str = "3.11"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its name in the table."""
        return self.name.replace("-", " ")

    @property
    def framework(self) -> str:
        """The name without the version."""
        return self.name.partition("-")[0]


def in_forky(release: Release, *tests: str) -> Release:
    """A release with the Python and the compiler of tests/forky.py, and maybe with more tests."""
    name = f"{release.name}-forky"
    return replace(release, name=name, tests=(*tests, *release.tests), python=FORKY_PYTHON)


def torch_release(version: str, python: str = "3.11") -> Release:
    packages = (f"torch=={version}", "numpy")
    return Release(f"torch-{version}", packages, ("tests/torch_plugin",), python)


def torch_without_private_names(version: str) -> Release:
    """A torch whose private names the plugin does not find."""
    release = torch_release(version)
    hidden = {"GRAPHFFI_HIDE_PRIVATE_NAMES": "1"}  # tests/hidden_names.py
    name = f"{release.name}-private-names-hidden"
    return Release(name, release.packages, release.tests, environment=hidden)


def jax_release(version: str, python: str = "3.11") -> Release:
    packages = (f"jax=={version}", f"jaxlib=={version}", "numpy", "flatbuffers", "absl-py")
    return Release(f"jax-{version}", packages, ("tests/jax_plugin",), python)


def jax_cuda_release(version: str, python: str = "3.11") -> Release:
    """JAX that compiles for a GPU, with or without one."""
    plugin = tuple(f"jax-cuda13-{part}=={version}" for part in ("plugin", "pjrt"))
    packages = (*jax_release(version).packages, *plugin)
    tests = ("tests/gpu/test_jax_programs.py",)
    return Release(f"jax-cuda13-{version}", packages, tests, python, {"JAX_PLATFORMS": "cpu"})


def onnxruntime_release(version: str, python: str = "3.11") -> Release:
    """Sessions of ONNX Runtime; tests that export models need torch, and are skipped."""
    packages = (f"onnxruntime=={version}", "onnx", "numpy")
    return Release(f"onnxruntime-{version}", packages, ("tests/onnxruntime_plugin",), python)


RELEASES = (
    *(torch_release(version) for version in ("2.10.0", "2.13.0", "2.15.0")),
    torch_without_private_names("2.13.0"),
    *(jax_release(version) for version in ("0.6.0", "0.8.3", "0.10.2")),
    # From 0.11 on, JAX has no wheels for Python 3.11.
    *(jax_release(version, "3.12") for version in ("0.11.2", "0.12.0.1")),
    jax_cuda_release("0.10.2"),
    jax_cuda_release("0.12.0.1", "3.12"),
    *(onnxruntime_release(version) for version in ("1.25.1", "1.28.0", "1.32.0")),
    *(in_forky(torch_release(version)) for version in ("2.13.0", "2.15.0")),
    in_forky(jax_release("0.10.2"), "tests/abi", "tests/call", "tests/core"),
    in_forky(jax_release("0.12.0.1")),
)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and output of a program, which is shown too."""
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def must_run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> None:
    status, _ = run(*command, cwd=cwd, env=env)
    if status:
        line = " ".join(map(str, command))
        raise SystemExit(f"matrix: expected exit status 0, got {status} from {line}")


def list_sources(tree: Path) -> set[str]:
    """The files of the source tree, or of a copy of it, that git knows or would add."""
    git = ("git", "--git-dir", ROOT / ".git", "--work-tree", tree)
    command = (*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    return {name for name in listed.stdout.split("\0") if (tree / name).is_file()}


def copy_sources(target: Path) -> None:
    """Copies the files that changed, removes those that are gone, and keeps what was built."""
    target.mkdir(parents=True, exist_ok=True)
    names = list_sources(ROOT)
    for name in list_sources(target) - names:
        (target / name).unlink()
    for name in names:
        source, copy = ROOT / name, target / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)


def find_pythons(releases: list[Release]) -> dict[str, str]:
    """The interpreters that the releases need, by their versions.

    Raises:
        SystemExit: One is missing.
    """
    pythons: dict[str, str] = {}
    for release in releases:
        if (found := find_python(release.python)) is None:
            others = [other.name for other in RELEASES if other.python != release.python]
            raise SystemExit(
                f"matrix: expected python{release.python} on the PATH or among pyenv's, got none; "
                f"install it, or name releases for other versions of Python: {', '.join(others)}"
            )
        pythons[release.python] = found
    return pythons


def build(sources: Path, python: Path, *plugins: str) -> None:
    """Builds the core and these plugins in a copy of the source tree."""
    copy_sources(sources)
    switches = {f"GRAPHFFI_BUILD_{p.upper()}": str(int(p in plugins)) for p in ("torch", "jax")}
    environment = {**os.environ, **switches}
    must_run(python, "setup.py", "--quiet", "build_native", cwd=sources, env=environment)


class Matrix:
    """Builds in one folder with one interpreter per version of Python, and each tree once."""

    def __init__(self, folder: Path, pythons: dict[str, str]) -> None:
        self._folder = folder
        self._pythons = pythons
        self._jax_trees: dict[str, Path] = {}
        self.has_failed = False

    def _sources(self, release: Release, python: Path) -> Path:
        """The tree of a release. JAX plugins are copies of the first; the core is per Python."""
        if release.framework != "jax":
            is_shared = release.framework == "onnxruntime"
            folder = f"onnxruntime-python{release.python}" if is_shared else release.name
            build(self._folder / folder / "source", python, release.framework)
            return self._folder / folder / "source"
        if release.python not in self._jax_trees:
            sources = self._folder / f"jax-python{release.python}" / "source"
            first = next(iter(self._jax_trees.values()), None)
            build(sources, python, *(() if first else ("jax",)))
            if first:
                shutil.copytree(first / PLUGIN, sources / PLUGIN, dirs_exist_ok=True)
            self._jax_trees[release.python] = sources
        return self._jax_trees[release.python]

    def _install(self, release: Release) -> Path:
        """The interpreter of a virtual environment that holds the release."""
        venv = self._folder / release.name / "venv"
        python = venv / "bin" / "python"
        if not python.exists():
            must_run(self._pythons[release.python], "-m", "venv", venv, cwd=ROOT)
        packages = (*release.packages, *TOOLS, *OPTIONAL, *PEERS)
        must_run(python, "-m", "pip", "install", "--quiet", *packages, cwd=ROOT)
        return python

    def test(self, release: Release) -> str:
        """Builds and tests with one release; gives its row of the table."""
        python = self._install(release)
        sources = self._sources(release, python)
        cells = [release.title, release.python, datetime.date.today().isoformat()]
        reasons: dict[str, None] = {}
        for runtime in ("bundled", "apache"):
            paths = (sources, *(sources / "plugins" / name for name in PLUGINS))
            environment = {
                **os.environ,
                **release.environment,
                "GRAPHFFI_RUNTIME": runtime,
                "GRAPHFFI_CACHE_DIR": str(self._folder / release.name / "cache"),
                "TORCHINDUCTOR_CACHE_DIR": str(self._folder / release.name / "inductor"),
                "TVM_FFI_CACHE_DIR": str(self._folder / release.name / "apache-cache"),
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
            }
            pytest = (str(python), "-m", "pytest", "-q", "-rs", *release.tests)
            status, output = run(*pytest, cwd=sources, env=environment)
            self.has_failed |= status != 0
            cells.append(counts_of(output) or f"exit status {status}")
            reasons |= dict.fromkeys(SKIPPED.findall(output))
        return f"| {' | '.join(cells)} | {'; '.join(reasons)} |"


def counts_of(output: str) -> str:
    """How many tests passed, failed and so on, as pytest sums them up; empty where it does not."""
    summaries = SUMMARY.findall(output)
    return ", ".join(map(" ".join, COUNTS.findall(summaries[-1]))) if summaries else ""


def write_table(path: Path, rows: dict[str, str]) -> None:
    """Writes the rows, each under its release's title, and keeps other releases and sections."""
    table, section, others = (path.read_text() if path.exists() else "").partition("\n## ")
    known = table.splitlines()
    lines = []
    for release in RELEASES:
        start = f"| {release.title} |"
        kept = next((line for line in known if line.startswith(start)), None)
        if (line := rows.get(release.title, kept)) is not None:
            lines.append(line)
    path.write_text(HEAD + "\n".join(lines) + "\n" + section + others)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(r.name for r in RELEASES))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    unknown = set(options.names) - {release.name for release in RELEASES}
    if unknown:
        parser.error(f"expected some of {[r.name for r in RELEASES]}, got {sorted(unknown)}")
    names = options.names or [r.name for r in RELEASES if r.python != FORKY_PYTHON]
    releases = [r for r in RELEASES if r.name in names]
    matrix = Matrix(options.folder.resolve(), find_pythons(releases))
    rows: dict[str, str] = {}
    for release in releases:
        rows[release.title] = matrix.test(release)
        if options.write:
            write_table(options.write, rows)
    print("\n".join(rows.values()))
    return int(matrix.has_failed)


if __name__ == "__main__":
    sys.exit(main())
