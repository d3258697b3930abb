# SPDX-License-Identifier: Apache-2.0
"""Runs the tests with older and newer frameworks, each in an environment of its own.

    python tests/matrix.py [--folder build/matrix] [--write docs/versions.md] [name ...]

Every release gets a virtual environment and a copy of the source tree, in which graphffi is built;
both are used again by the next run. Without names, all releases are tested. Frameworks come from
the package index: some builds of torch take several GB.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("cmake", "ninja", "pybind11>=3", "setuptools>=77", "wheel", "pytest>=8", "ml_dtypes")
PEERS = ("apache-tvm-ffi==0.1.15.post2",)
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


@dataclass(frozen=True)
class Release:
    """One release of a framework, what else it needs, and the tests of its plugin."""

    name: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]


def torch_release(version: str) -> Release:
    return Release(f"torch-{version}", (f"torch=={version}", "numpy"), ("tests/torch_plugin",))


def jax_release(version: str) -> Release:
    packages = (f"jax=={version}", f"jaxlib=={version}", "numpy")
    return Release(f"jax-{version}", packages, ("tests/jax_plugin",))


RELEASES = (
    *(torch_release(version) for version in ("2.10.0", "2.13.0", "2.15.0")),
    *(jax_release(version) for version in ("0.6.0", "0.8.3", "0.10.2")),
)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and output of a program, which is shown too."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return process.wait(), "".join(lines)


def must_run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> None:
    status, _ = run(*command, cwd=cwd, env=env)
    if status:
        raise SystemExit(f"matrix: {command[0]} failed with exit status {status}")


def copy_sources(target: Path) -> None:
    """The files that git knows or would add, where they changed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        source, copy = ROOT / name, target / name
        if not source.is_file() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)


def test_release(release: Release, folder: Path) -> str:
    """Builds and tests with one release; gives what a table says of it."""
    home = folder / release.name
    python, sources = home / "venv" / "bin" / "python", home / "source"
    if not python.exists():
        must_run(sys.executable, "-m", "venv", home / "venv", cwd=ROOT)
    must_run(python, "-m", "pip", "install", "--quiet", *release.packages, *TOOLS, *PEERS, cwd=ROOT)
    copy_sources(sources)
    must_run(python, "setup.py", "--quiet", "build_native", cwd=sources)
    paths = (sources, sources / "plugins/torch", sources / "plugins/jax")
    told = []
    for runtime in ("bundled", "apache"):
        environment = {
            **os.environ,
            "GRAPHFFI_RUNTIME": runtime,
            "GRAPHFFI_CACHE_DIR": str(home / "cache"),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
        status, output = run(
            python, "-m", "pytest", "-q", *release.tests, cwd=sources, env=environment
        )
        counts = COUNTS.findall(output.strip().splitlines()[-1])
        told.append(", ".join(" ".join(count) for count in counts) or f"exit status {status}")
    return f"| {release.name.replace('-', ' ')} | {told[0]} | {told[1]} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(r.name for r in RELEASES))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    unknown = set(options.names) - {release.name for release in RELEASES}
    if unknown:
        parser.error(f"expected some of {[r.name for r in RELEASES]}, got {sorted(unknown)}")
    folder = options.folder.resolve()
    rows = [
        test_release(r, folder) for r in RELEASES if not options.names or r.name in options.names
    ]
    text = "\n".join(("| | bundled runtime | apache-tvm-ffi's |", "|---|---|---|", *rows))
    print(text)
    if options.write:
        head = (
            "# Versions\n\nThe tests of each plugin with releases of its framework (`make matrix`)."
        )
        options.write.write_text(f"{head}\n\n{text}\n")
    return int(bool(re.search(r"failed|error|exit status", text)))


if __name__ == "__main__":
    sys.exit(main())
