# SPDX-License-Identifier: Apache-2.0
"""Builds graphffi: CMake makes the native parts inside the source tree, setuptools packs them.

The core is always built, and so is the JAX plugin, which needs no JAX for that. The PyTorch plugin
is built for the torch of this environment, also where pip isolates the build from it, or for each
of several torches. Environment:

    GRAPHFFI_BUILD_TORCH, GRAPHFFI_BUILD_JAX   1 insists, 0 skips, unset builds what is possible
    GRAPHFFI_BUILD_TYPE                        CMake's build type, Release if unset
    GRAPHFFI_JOBS                              parallel compile jobs, the number of cores if unset
    GRAPHFFI_WERROR                            1 makes warnings errors, as CI does
    GRAPHFFI_PORTABLE                          1 builds for older systems, those of manylinux_2_28
    GRAPHFFI_TORCH                             folders of the torches to build for, between colons:
                                               other releases, or those of another Python

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
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from setuptools import Command, Distribution, find_packages, setup
from setuptools.command.build import build
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import ExecError, SetupError

ROOT = Path(__file__).resolve().parent
BUILD_DIR = ROOT / "build"
PLUGINS = {
    "graphffi_torch": "plugins/torch/graphffi_torch",
    "graphffi_jax": "plugins/jax/graphffi_jax",
    "graphffi_onnxruntime": "plugins/onnxruntime/graphffi_onnxruntime",
    "graphffi_tvm": "plugins/tvm/graphffi_tvm",
}
SOURCE = "graphffi/_source"
"""Where a wheel has what `graphffi build-plugin` compiles."""
PAYLOAD = {
    "csrc/include": "graphffi/include",
    "plugins/torch/csrc/include": "graphffi_torch/include",
    "graphffi/_lib": "graphffi/_lib",
    "graphffi/share": "graphffi/share",
    **{f"{folder}/lib": f"{package}/lib" for package, folder in PLUGINS.items()},
    **{
        name: f"{SOURCE}/{name}"
        for name in ("CMakeLists.txt", "csrc/exports.map", "plugins/torch/csrc")
    },
    **{
        f"csrc/{name}": f"{SOURCE}/csrc/{name}"
        for name in ("call", "env", "gil", "hooks", "kernels", "modules", "observe", "shapes")
    },
}
"""Files outside of Python packages: their place in the source tree and in a wheel."""


def find_torches() -> list[Path]:
    """The folders of the torches to build for.

    pip hides the environment from an isolated build, but that has its prefix.
    """
    if named := os.environ.get("GRAPHFFI_TORCH"):
        return [Path(folder) for folder in named.split(os.pathsep)]
    folders = [*sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    spec = PathFinder.find_spec("torch", folders)
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent]


def torch_version(torch: Path) -> str:
    """The version of torch, read without importing it."""
    facts: dict[str, object] = {}
    exec((torch / "version.py").read_text(), facts)
    return str(facts["__version__"])


def torch_release(torch: Path) -> str:
    """The release that a build of the plugin is for, such as 2.13; it serves all patches of it."""
    return ".".join(torch_version(torch).split(".")[:2])


def is_wanted(switch: str, *, is_possible: bool) -> bool:
    """Whether to build a plugin.

    Raises:
        SetupError: The switch has no known value.
    """
    choice = os.environ.get(switch, "")
    if choice not in ("", "0", "1"):
        raise SetupError(f"graphffi: {switch}: expected 0 or 1, got '{choice}'")
    return choice == "1" or (is_possible and choice == "")


def wanted_torches() -> list[Path]:
    """The torches to build the plugin for; none if it is not to be built.

    Raises:
        SetupError: The switch insists, and there is no torch.
    """
    torches = find_torches()
    if not is_wanted("GRAPHFFI_BUILD_TORCH", is_possible=bool(torches)):
        return []
    if not torches:
        raise SetupError(
            f"graphffi: GRAPHFFI_BUILD_TORCH=1: expected torch in {sys.prefix}, got none"
        )
    return torches


def wants_jax() -> bool:
    """Whether to build the JAX plugin: one build serves every JAX."""
    return is_wanted("GRAPHFFI_BUILD_JAX", is_possible=True)


def describe_parts() -> list[str]:
    """One line for each part: whether it was built, and what to do if not."""
    if torches := wanted_torches():
        torch_line = f"yes, for torch {', '.join(map(torch_version, torches))}"
    elif os.environ.get("GRAPHFFI_BUILD_TORCH") == "0":
        torch_line = "no (GRAPHFFI_BUILD_TORCH=0)"
    else:
        torch_line = "no (no torch here); later: graphffi build-plugin"
    jax_line = "yes" if wants_jax() else "no (GRAPHFFI_BUILD_JAX=0)"
    return ["core: yes", f"PyTorch plugin: {torch_line}", f"JAX plugin: {jax_line}"]


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
    """What each of the builds is configured with; a change of it configures again."""
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
    for switch in ("GRAPHFFI_WERROR", "GRAPHFFI_PORTABLE"):
        arguments.append(f"-D{switch}={'ON' if os.environ.get(switch) == '1' else 'OFF'}")
    return arguments


def run(*command: str) -> None:
    """Runs a program and stops the build where it fails."""
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except subprocess.CalledProcessError as error:
        name = Path(command[0]).name
        raise ExecError(f"graphffi: {name} failed with exit status {error.returncode}") from None


def build_tree() -> None:
    """Builds into the packages of the source tree, for a torch or none, then for other torches.

    Raises:
        SetupError: This is Python's free-threaded build, which `import graphffi` refuses.
    """
    if "t" in sys.abiflags:
        raise SetupError("graphffi: expected Python with the GIL, got its free-threaded build")
    torch, *others = wanted_torches() or [None]
    jax = f"-DGRAPHFFI_BUILD_JAX={'ON' if wants_jax() else 'OFF'}"
    build_for(torch, BUILD_DIR, jax)
    runtime = f"-DGRAPHFFI_RUNTIME={ROOT / 'graphffi/_lib/libtvm_ffi.so'}"
    for torch in others:
        folder = BUILD_DIR / f"torch-{torch_release(torch)}"
        build_for(torch, folder, "-DGRAPHFFI_BUILD_CORE=OFF", runtime)


def build_for(torch: Path | None, folder: Path, *options: str) -> None:
    """Configures where needed, and builds."""
    cmake = find_tool("cmake")
    arguments = [*configure_arguments(), *options]
    arguments.append(f"-DGRAPHFFI_BUILD_TORCH={'OFF' if torch is None else 'ON'}")
    if torch is not None:
        arguments.append(f"-DGRAPHFFI_TORCH_ROOT={torch}")
    built_for = None if torch is None else torch_version(torch)
    wanted = json.dumps([cmake, arguments, built_for], indent=1)
    configured = folder / "configured.json"
    if not configured.exists() or configured.read_text() != wanted:
        run(cmake, "--fresh", "-S", str(ROOT), "-B", str(folder), *arguments)
        configured.write_text(wanted)
    jobs = os.environ.get("GRAPHFFI_JOBS") or str(os.cpu_count() or 1)
    run(cmake, "--build", str(folder), "--parallel", jobs)


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
        for line in describe_parts():
            print(f"graphffi:   {line}", flush=True)


def other_builds(folder: str, names: list[str]) -> set[str]:
    """What a wheel leaves out: extension modules for other Pythons, plugins for other torches."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    releases = {f"torch-{release}" for release in map(torch_release, wanted_torches())}
    return {
        name
        for name in names
        if (".cpython-" in name and not name.endswith(suffix))
        or (name.startswith("torch-") and name not in releases)
    }


class BuildPayload(BuildCommand):
    """Adds what is no part of a Python package to a wheel."""

    description = "copy shared libraries, headers and the PyTorch plugin's sources into a wheel"

    def run(self) -> None:
        """Copies them; an editable install uses those of the source tree."""
        if self.editable_mode:
            return
        for source, target in PAYLOAD.items():
            to = Path(self.build_lib, target)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=other_builds, dirs_exist_ok=True)
            elif (ROOT / source).exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / source, to)


class SourceFolders:
    """Has an editable install put folders on `sys.path`: type checkers follow no import hooks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, wheel: Any, files: list[str], mapping: dict[str, str]) -> None:
        """Writes the file by which Python, mypy and pyright find the packages."""
        folders = [ROOT, *(ROOT / Path(folder).parent for folder in PLUGINS.values())]
        wheel.writestr(f"__editable__.{self.name}.pth", "".join(f"{path}\n" for path in folders))

    def __enter__(self) -> SourceFolders:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class EditableWheel(editable_wheel):
    """An editable install that type checkers see, where setuptools asks for a strategy."""

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> SourceFolders:
        return SourceFolders(name)


class Build(build):
    """The native parts come first: extension modules are package data of the Python part."""

    sub_commands = [("build_native", None), *build.sub_commands, ("build_payload", None)]


class BinaryDistribution(Distribution):
    """A distribution whose wheels are for one platform and one Python."""

    def has_ext_modules(self) -> bool:
        """CMake builds extension modules, of which setuptools does not know."""
        return True


def main() -> None:
    """Packs the core and the plugins; one that lacks its library says how to build it."""
    packages = find_packages(include=["graphffi", "graphffi.*"])
    for folder in PLUGINS.values():
        packages += find_packages(str(Path(folder).parent))
    files = [f"*{sysconfig.get_config_var('EXT_SUFFIX')}", "*.pyi", "*.c", "py.typed"]
    setup(
        distclass=BinaryDistribution,
        cmdclass={
            "build": Build,
            "build_native": BuildNative,
            "build_payload": BuildPayload,
            "editable_wheel": EditableWheel,
        },
        options={"build": {"build_base": "build/wheel"}},
        py_modules=["graphffi_command"],
        packages=packages,
        include_package_data=False,
        package_dir=PLUGINS,
        package_data=dict.fromkeys(["graphffi", "graphffi._build", *PLUGINS], files),
    )


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"error: {error}")
