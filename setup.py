# SPDX-License-Identifier: Apache-2.0
"""Builds graphffi: CMake makes the native parts inside the source tree, setuptools packs them.

The core is always built. The PyTorch plugin is built where torch is importable, the JAX plugin
where jaxlib is. Environment:

    GRAPHFFI_BUILD_TORCH, GRAPHFFI_BUILD_JAX   1 insists, 0 skips, unset builds what is possible
    GRAPHFFI_BUILD_TYPE                        CMake's build type, Release if unset
    GRAPHFFI_JOBS                              parallel compile jobs, the number of cores if unset

`python setup.py build_native` rebuilds what changed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.build import build
from setuptools.errors import ExecError, SetupError

ROOT = Path(__file__).resolve().parent
BUILD_DIR = ROOT / "build"


@dataclass(frozen=True)
class Plugin:
    """A part that is built only where its framework is importable."""

    title: str
    module: str
    switch: str
    package: str
    folder: str

    def is_wanted(self) -> bool:
        """Whether to build it here.

        Raises:
            SetupError: the switch insists and the framework is missing; or it has no known value.
        """
        choice = os.environ.get(self.switch, "")
        found = importlib.util.find_spec(self.module) is not None
        if choice not in ("", "0", "1"):
            raise SetupError(f"graphffi: {self.switch}: expected 0 or 1, got '{choice}'")
        if choice == "1" and not found:
            raise SetupError(
                f"graphffi: {self.switch}=1: expected {self.module} in {sys.prefix}, got none; "
                "install it, and build with --no-build-isolation"
            )
        return found and choice != "0"

    def describe(self) -> str:
        """One line that says whether it is built, and why."""
        if self.is_wanted():
            return f"{self.title}: yes ({self.module} {metadata.version(self.module)})"
        if os.environ.get(self.switch) == "0":
            return f"{self.title}: no ({self.switch}=0)"
        return f"{self.title}: no ({self.module} is not importable here)"


TORCH = Plugin(
    "PyTorch plugin",
    "torch",
    "GRAPHFFI_BUILD_TORCH",
    "graphffi_torch",
    "plugins/torch/graphffi_torch",
)
JAX = Plugin(
    "JAX plugin", "jaxlib", "GRAPHFFI_BUILD_JAX", "graphffi_jax", "plugins/jax/graphffi_jax"
)
PLUGINS = (TORCH, JAX)


def find_tool(name: str) -> str:
    """The path of `cmake` or `ninja`: the one that pip installed, else the system's."""
    scripts = sysconfig.get_path("scripts")
    path = shutil.which(name, path=os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]))
    if path is None:
        raise SetupError(f"graphffi: expected the program '{name}', got none; pip install {name}")
    return path


def find_python() -> str:
    """The interpreter's one name: `python` and `python3` would configure twice."""
    python = Path(sys.prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return str(python) if python.exists() else sys.executable


def configure_arguments() -> list[str]:
    """What CMake is configured with; a change of it configures again."""
    arguments = [
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}",
        f"-DCMAKE_BUILD_TYPE={os.environ.get('GRAPHFFI_BUILD_TYPE', 'Release')}",
        f"-DPython3_EXECUTABLE={find_python()}",
    ]
    if importlib.util.find_spec("pybind11") is not None:
        import pybind11

        arguments.append(f"-Dpybind11_DIR={pybind11.get_cmake_dir()}")
    return arguments + [f"-D{p.switch}={'ON' if p.is_wanted() else 'OFF'}" for p in PLUGINS]


def run(*command: str) -> None:
    """Runs a program and stops the build where it fails."""
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except subprocess.CalledProcessError as error:
        name = Path(command[0]).name
        raise ExecError(f"graphffi: {name} failed with exit status {error.returncode}") from None


def build_tree() -> None:
    """Configures where needed and builds into the packages of the source tree."""
    cmake = find_tool("cmake")
    arguments = configure_arguments()
    frameworks = [f"{p.module} {metadata.version(p.module)}" for p in PLUGINS if p.is_wanted()]
    wanted = json.dumps([cmake, arguments, frameworks], indent=1)
    configured = BUILD_DIR / "configured.json"
    if not configured.exists() or configured.read_text() != wanted:
        run(cmake, "--fresh", "-S", str(ROOT), "-B", str(BUILD_DIR), *arguments)
        configured.write_text(wanted)
    jobs = os.environ.get("GRAPHFFI_JOBS") or str(os.cpu_count() or 1)
    run(cmake, "--build", str(BUILD_DIR), "--parallel", jobs)


class BuildCommand(Command):
    """What setuptools asks of a part of `build`."""

    user_options: list[tuple[str, str | None, str]] = []
    editable_mode = False
    build_lib = ""

    def initialize_options(self) -> None:
        """Nothing to set: the environment configures the build."""

    def finalize_options(self) -> None:
        """Takes over where `build` puts a wheel's files."""
        self.build_lib = str(self.get_finalized_command("build").build_lib)

    def get_source_files(self) -> list[str]:
        """None that MANIFEST.in does not name."""
        return []

    def get_outputs(self) -> list[str]:
        """None that setuptools has to know of."""
        return []

    def get_output_mapping(self) -> dict[str, str]:
        """None, see `get_outputs`."""
        return {}


class BuildNative(BuildCommand):
    """Builds the native parts into the source tree and says what was built."""

    description = "build the native parts into the source tree"

    def run(self) -> None:
        """Builds; a wheel starts from nothing, so that it has no plugin of an earlier one."""
        shutil.rmtree(self.build_lib, ignore_errors=True)
        build_tree()
        print("graphffi: built in", ROOT)
        for line in ("core: yes", *(plugin.describe() for plugin in PLUGINS)):
            print(f"graphffi:   {line}", flush=True)


class BuildPayload(BuildCommand):
    """Adds what is no part of a Python package to a wheel: shared libraries and headers."""

    description = "copy shared libraries and kernel-author headers into a wheel"

    def run(self) -> None:
        """Copies them; an editable install uses those of the source tree."""
        if self.editable_mode:
            return
        payload = {"csrc/include": "graphffi/include", "graphffi/_lib": "graphffi/_lib"}
        payload |= {f"{p.folder}/lib": f"{p.package}/lib" for p in PLUGINS if p.is_wanted()}
        for source, target in payload.items():
            shutil.copytree(ROOT / source, Path(self.build_lib, target), dirs_exist_ok=True)


class Build(build):
    """The native parts come first: extension modules are package data of the Python part."""

    sub_commands = [("build_native", None), *build.sub_commands, ("build_payload", None)]


class BinaryDistribution(Distribution):
    """A distribution whose wheels are for one platform and one Python."""

    def has_ext_modules(self) -> bool:
        """CMake builds extension modules, of which setuptools does not know."""
        return True


def main() -> None:
    """Packs the core and the plugins that are built here."""
    built = [plugin for plugin in PLUGINS if plugin.is_wanted()]
    files = [f"*{sysconfig.get_config_var('EXT_SUFFIX')}", "*.pyi", "*.c", "py.typed"]
    setup(
        distclass=BinaryDistribution,
        cmdclass={"build": Build, "build_native": BuildNative, "build_payload": BuildPayload},
        options={"build": {"build_base": "build/wheel"}},
        packages=["graphffi", *(plugin.package for plugin in built)],
        include_package_data=False,
        package_dir={plugin.package: plugin.folder for plugin in built},
        package_data={"graphffi": files, **{plugin.package: files for plugin in built}},
    )


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"error: {error}")
