# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels of all contenders, and contenders that are written against a framework."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "benchmarks"


def compile_library(source: str, *flags: str) -> Path:
    """Compiles a source of csrc/ into a shared library, unless the library is up to date."""
    path, library = HERE / "csrc" / source, OUTPUT / f"{Path(source).stem}.so"
    if not library.exists() or library.stat().st_mtime < path.stat().st_mtime:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        compiler = ["gcc", "-std=c11"] if path.suffix == ".c" else ["g++", "-std=c++17"]
        command = [*compiler, "-O2", "-fPIC", "-shared", str(path), "-o", str(library), *flags]
        subprocess.run(command, check=True)
    return library


def kernels() -> Path:
    """`touch` and `touch_scaled`, with graphffi's headers."""
    import graphffi

    return Path(graphffi.cpp.build("benchmark_kernels", sources=[str(HERE / "csrc/kernels.cc")]))


def source(name: str) -> str:
    """The path of a source in csrc/."""
    return str(HERE / "csrc" / name)


def torch_flags() -> list[str]:
    """Compiler flags for a library that is written against torch."""
    import torch

    root = Path(torch.__file__).parent
    includes = (root / "include", root / "include/torch/csrc/api/include")
    abi = int(torch.compiled_with_cxx11_abi())
    flags = [f"-isystem{folder}" for folder in includes] + [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    return [*flags, f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10"]


def extension_flags() -> list[str]:
    """Compiler flags for an extension module that is written against torch."""
    return [*torch_flags(), f"-I{sysconfig.get_path('include')}", "-ltorch_python"]


def torch_op(source: str) -> Path:
    """An op written by hand, for `torch.ops.load_library`."""
    return compile_library(source, *torch_flags())


def _linked_with(library: Path) -> list[str]:
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def typed_cuda_op(kernels: Path) -> Path:
    """An op written by hand that launches a kernel of this library."""
    from torch.utils.cpp_extension import include_paths

    cuda = [f"-isystem{folder}" for folder in include_paths("cuda")]
    return compile_library(
        "typed_cuda_op.cc", *cuda, *torch_flags(), *_linked_with(kernels), "-lc10_cuda"
    )


def pybind11_function() -> Path:
    """The extension module `pybind11_function`."""
    return compile_library("pybind11_function.cc", *extension_flags())


def nanobind_function() -> Path:
    """The extension module `nanobind_function`."""
    import nanobind

    root = Path(nanobind.include_dir()).parent
    includes = [sysconfig.get_path("include"), root / "include", root / "ext/robin_map/include"]
    flags = [*(f"-isystem{folder}" for folder in includes), str(root / "src/nb_combined.cpp")]
    return compile_library("nanobind_function.cc", "-fno-strict-aliasing", *flags)


def xla_handler() -> Path:
    """The raw XLA FFI handler `touch`."""
    import jax

    return compile_library("xla_handler.c", f"-isystem{jax.ffi.include_dir()}")


def xla_cuda_handler(kernels: Path) -> Path:
    """The raw XLA FFI handlers `touch` and `touch_recorded`, for a kernel of this library."""
    import jax

    include = f"-isystem{jax.ffi.include_dir()}"
    return compile_library("xla_cuda_handler.c", include, *_linked_with(kernels))


def graph_host() -> Path:
    """The program that calls a method of a library made by `to_library`."""
    import graphffi

    program, folder = OUTPUT / "graph_host", Path(graphffi.__file__).parent / "_lib"
    flags = ["-std=c++17", "-O2", f"-isystem{graphffi.cpp.include_path()}", source("graph_host.cc")]
    return _program(program, [*flags, f"-L{folder}", "-ltvm_ffi"])


def package_host() -> Path:
    """The program that loads a package with torch's loader and calls its model."""
    import torch

    import graphffi
    import graphffi_torch

    root = Path(torch.__file__).parent
    folders = [root / "lib", graphffi_torch.library_path(), Path(graphffi.__file__).parent / "_lib"]
    standard = "-std=c++20" if torch.__version__ >= "2.14" else "-std=c++17"
    flags = [standard, "-O2", f"-I{graphffi_torch.include_path()}", source("package_host.cc")]
    flags += [f"-Wl,-rpath,{folder}" for folder in folders] + [f"-L{folder}" for folder in folders]
    flags += ["-Wl,--no-as-needed", "-lgraphffi_torch", "-ltvm_ffi"]
    return _program(OUTPUT / "package_host", [*flags, *torch_flags()])


def _program(program: Path, flags: list[str]) -> Path:
    """Compiles the program, unless it exists."""
    if not program.exists():
        OUTPUT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", *flags, "-o", str(program)], check=True)
    return program


def function_calls(side: str) -> tuple[Path, Path]:
    """The program that times calls from C++, with one set of headers, and its runtime's folder."""
    import tvm_ffi

    import graphffi

    if side == "apache":
        root = Path(tvm_ffi.__file__).parent
        include, folder = root / "include", root / "lib"
    else:
        include, folder = Path(graphffi.cpp.include_path()), Path(graphffi.__file__).parent / "_lib"
    source, program = HERE / "csrc/function_calls.cc", OUTPUT / f"function_calls_{side}"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c++17", "-O2", f"-isystem{include}", str(source), "-o", str(program)]
    subprocess.run(["g++", *flags, f"-L{folder}", "-ltvm_ffi"], check=True)
    return program, folder
