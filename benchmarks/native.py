# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels that all share, and the peers that are written against a framework."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "build" / "benchmarks"


def compile_library(source: str, *flags: str) -> Path:
    """Compiles one of csrc/ into a shared library, if it is older than its source."""
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


def torch_op(source: str) -> Path:
    """An op written by hand, for `torch.ops.load_library`."""
    import torch

    root = Path(torch.__file__).parent
    includes = (root / "include", root / "include/torch/csrc/api/include")
    abi = int(torch.compiled_with_cxx11_abi())
    flags = [f"-isystem{folder}" for folder in includes] + [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    return compile_library(source, *flags, f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10")


def xla_handler() -> Path:
    """The raw XLA FFI handler `touch`."""
    import jax

    return compile_library("xla_handler.c", f"-isystem{jax.ffi.include_dir()}")


def function_calls(side: str) -> tuple[Path, Path]:
    """The program that times calls from C++, with one set of headers, and its runtime's folder."""
    import tvm_ffi

    import graphffi

    if side == "apache":
        root = Path(tvm_ffi.__file__).parent
        include, folder = root / "include", root / "lib"
    else:
        include, folder = Path(graphffi.include_path()), Path(graphffi.__file__).parent / "_lib"
    source, program = HERE / "csrc/function_calls.cc", OUTPUT / f"function_calls_{side}"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c++17", "-O2", f"-isystem{include}", str(source), "-o", str(program)]
    subprocess.run(["g++", *flags, f"-L{folder}", "-ltvm_ffi"], check=True)
    return program, folder
