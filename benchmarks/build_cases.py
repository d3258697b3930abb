# SPDX-License-Identifier: Apache-2.0
"""The cost of building a library of one kernel, and its size."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import native
from timing import Case, Contender

KERNEL, OP = "kernel_library.cc", "operator_library.cc"


def commands() -> dict[str, list[str]]:
    """The compiler commands of each contender, without the output file, which comes last."""
    import tvm_ffi

    import graphffi

    apache = Path(tvm_ffi.__file__).parent
    ours = ["-I" + graphffi.cpp.include_path(), f"-L{Path(graphffi.__file__).parent / '_lib'}"]
    theirs = [f"-I{apache / 'include'}", f"-L{apache / 'lib'}"]
    plain = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-s"]
    torch, extension = native.torch_flags(), native.extension_flags()
    return {
        "TVM FFI, graphffi's headers": [*plain, native.source(KERNEL), *ours, "-ltvm_ffi"],
        "TVM FFI, apache's headers": [*plain, native.source(KERNEL), *theirs, "-ltvm_ffi"],
        "torch's stable ABI": [*plain, native.source("stable_op.cc"), *torch],
        "TORCH_LIBRARY": [*plain, native.source(OP), *torch],
        "pybind11 and torch": [
            *plain,
            native.source("pybind11_function.cc"),
            *extension,
        ],
    }


def compile_time(command: list[str], output: Path) -> Callable[[], float]:
    """Measures the compiler's processor time, in nanoseconds."""

    def measure() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "-o", str(output)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return spent * 1e9

    return measure


def size(output: Path) -> Callable[[], float]:
    """The size in bytes of a stripped library."""
    return lambda: float(output.stat().st_size)


def cases() -> list[Case]:
    """The same kernel for all: `out[0] = x[0]`, with its operands' data types checked."""
    native.OUTPUT.mkdir(parents=True, exist_ok=True)
    built = {name: native.OUTPUT / f"library{i}.so" for i, name in enumerate(commands())}
    times = [
        Contender(name, compile_time(command, built[name])) for name, command in commands().items()
    ]
    sizes = [Contender(name, size(output)) for name, output in built.items()]
    return [
        Case("a library of one kernel: compiling it", times, unit="s", scale=1e-9, rounds=3),
        Case("a library of one kernel: its size", sizes, unit="kB", scale=1e-3, rounds=2),
    ]
