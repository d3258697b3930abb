# SPDX-License-Identifier: Apache-2.0
"""Compiles and links a library of generated code."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.cpp import include_path
from graphffi.plugin import c_string, object_of, precompiled_header
from graphffi_torch._standalone.code import prefix_code, text_code
from graphffi_torch._standalone.externs import (
    FOLDER,
    TORCH_INCLUDE,
    Externs,
    extern_code,
    product_functions,
)
from graphffi_torch._standalone.isa import ISAS, Isa, Toolchain
from graphffi_torch._standalone.kernels import PREFIX
from graphffi_torch._standalone.maths import maths_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi_torch._standalone.weights import WeightFile

# Macros of compilers for sets of instructions, by the processor's name of the set.
_INSTRUCTIONS: Final = {
    name: f"__{name.upper().replace('.', '_').replace('-', '_')}__"
    for name in (
        *("sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "f16c", "movbe", "gfni", "sha"),
        *("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512vbmi", "avx512vbmi2"),
        *("avx512ifma", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16"),
        *("avx512fp16", "avxvnni", "amx-tile", "amx-bf16", "amx-int8"),
    )
}
# Torch's flags for debugging and warnings, which the library has no use for.
_DROPPED: Final = {"g1", "Wall", "pedantic", "fno-omit-frame-pointer"}
# A linker's error, GNU's and LLVM's.
_UNDEFINED: Final = re.compile(r"undefined (?:reference to|symbol:) [`']?([^'\n]+)")
# Ours, in the order in which generated code includes them: before torch's.
_HEADERS: Final = (
    "graphffi_standalone/laid_out.h",
    "graphffi_standalone/load_once.h",
    "graphffi_standalone/loop_error.h",
)
_INCLUDES: Final = (
    *(f"-I{folder}" for folder in (FOLDER, FOLDER / "include", include_path())),
    *("-isystem", str(TORCH_INCLUDE)),
)
_EXPORTS: Final = "{ global: __tvm_ffi_*; __graphffi_*; local: *; };\n"


@dataclass(frozen=True)
class Generated:
    """The output of AOTInductor for a program.

    Args:
        model: The end of the name of the class.
        code: Text in C++.
        header: Text of the class, in the file that the code includes, ``<model>.h``.
        flags: For the compiler.
        device: Where it runs: ``"cpu"`` or ``"cuda"``.
        weights: The bytes of all constants.
        interpreted: The operators that torch would interpret, as ``aten.median``.
        images: Object files with kernels for CUDA.
    """

    model: str
    code: str
    header: str
    flags: Mapping[str, Any]
    device: str
    weights: bytes
    interpreted: Sequence[str]
    images: Sequence[bytes]


def build(
    path: Path,
    sources: Sequence[Generated],
    weights: WeightFile,
    externs: Externs,
    *,
    is_embedded: bool,
    isa: str,
    kernels: Sequence[str],
) -> None:
    """Makes the library.

    Args:
        path: Of the library.
        sources: One for each method, whose code exports the method.
        weights: Of all methods.
        externs: Kernels that they need.
        is_embedded: Whether the library holds the weights; else a file beside it does.
        isa: Instructions to use, of `ISAS`.
        kernels: Those that programs call, for `graphffi inspect`.

    Raises:
        RuntimeError: If a compiler is missing or fails, with what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        on_cuda = [source for source in sources if source.device == "cuda"]
        compiler = _Compiler(Path(folder), (on_cuda or sources)[0].flags, ISAS[isa])
        for source in sources:
            (Path(folder) / f"{source.model}.h").write_text(source.header)
        compiler.precompile("cuda" if on_cuda else "cpu")
        texts = {source.model: source.code for source in sources}
        own = set(externs.own.values())
        if any(name in source.code for name in product_functions() for source in sources):
            own.add(FOLDER / "compiled/product.cc")
        if any("ATen/native/CPUBlas.h" in source.code for source in sources):
            own.add(FOLDER / "compiled/attention.cc")
        if externs.own or externs.references:
            texts["externs"] = extern_code(externs)
        file_name = f"{path.stem}.weights" if weights.content and not is_embedded else None
        instructions = compiler.instructions()
        operators = [name.replace("aoti_torch_cpu_", "aten.") for name in sorted(externs.own)]
        has_images = any(source.images for source in on_cuda)
        capability = torch.cuda.get_device_capability() if has_images else (0, 0)
        description = {
            "processor": instructions,
            "gpu": ["sm_{}{}".format(*capability)] if has_images else [],
            "operators": operators,
            "kernels": kernels,
        }
        text = "\n".join(
            f"{key}: {', '.join(items)}" for key, items in description.items() if items
        )
        texts["library"] = (
            compiler.weights_code(weights.content, file_name)
            + _processor_code(instructions, bool(on_cuda), capability)
            + text_code("graph_library", text)
        )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            own_objects = pool.map(compiler.compile_kernels, sorted(own))
            objects = [*pool.map(compiler.compile, texts, texts.values()), *own_objects]
        objects.extend(compiler.images(sources))
        maths = maths_code(compiler.toolchain.undefined(*objects))
        if maths:
            objects.append(compiler.compile("maths", maths))
        if file_name is not None:
            _replace(path.with_name(file_name), weights.content + _digest(weights.content).encode())
        compiler.link(objects, path)


def _digest(content: bytes | bytearray) -> str:
    return hashlib.sha256(content).hexdigest()


def _replace(path: Path, content: bytes | bytearray) -> None:
    """Writes a file anew: processes that have the old one mapped keep it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def _processor_code(
    instructions: Sequence[str], is_on_cuda: bool, capability: tuple[int, int]
) -> str:
    rows = "".join(
        f'{{"{name}", [] {{ return __builtin_cpu_supports("{name}") != 0; }}}}, '
        for name in instructions
    )
    major, minor = capability
    return f"""#include <graphffi_standalone/device.h>
#include <graphffi_standalone/graph.h>
namespace graphffi_standalone {{
const Instructions kInstructions[] = {{{rows}{{nullptr, nullptr}}}};
const DeviceKind* const kOptDeviceKind = {"&kCuda" if is_on_cuda else "nullptr"};
const int32_t kComputeCapability = {10 * major + minor};
}}
"""


class _Compiler:
    def __init__(self, folder: Path, flags: Mapping[str, Any], isa: Isa) -> None:
        self._folder = folder
        self.toolchain = Toolchain(isa, flags["compiler"])
        self._flags = [
            *(f"-D{name.strip()}" for name in flags["definitions"]),
            *(f"-{flag}" for flag in flags["cflags"] if flag not in _DROPPED),
            *" ".join(flags["passthrough_args"]).split(),
        ]
        # CUDA's headers, for code that launches its kernels.
        folders = [f for f in flags["include_dirs"] if Path(f, "cuda.h").is_file()]
        self._flags += [part for folder in folders for part in ("-isystem", folder)]
        if isa.flags:
            self._flags = [flag for flag in self._flags if not flag.startswith("-m")]
        self._flags += [
            *isa.flags,
            *"-w -fvisibility=hidden -ffunction-sections -fdata-sections".split(),
        ]

    def precompile(self, device: str) -> None:
        """Makes `graph.h`, all that generated code includes: most of the time to compile it."""
        device_header = f"torch/csrc/inductor/aoti_include/{device}.h"
        includes = "".join(f"#include <{name}>\n" for name in (*_HEADERS, device_header))
        text = includes + prefix_code((TORCH_INCLUDE / PREFIX).read_text())
        command = [self.toolchain.compiler, *self._flags, *_INCLUDES]
        header, compiled = precompiled_header("graph", text, command, run)
        (self._folder / "graph.h").symlink_to(header)
        (self._folder / "graph.h.gch").symlink_to(compiled)

    def compile(self, name: str, code: str) -> Path:
        source = self._folder / f"{name}.cc"
        source.write_text(code)
        target = self._folder / f"{name}.o"
        arguments = [*self._flags, *_INCLUDES, "-include", str(self._folder / "graph.h")]
        run([self.toolchain.compiler, *arguments, "-c", str(source), "-o", str(target)])
        return target

    def compile_kernels(self, source: Path) -> Path:
        """The object of kernels of graphffi's, which are compiled once for each set of flags."""
        # Products and sums are one instruction there; generated code rounds between them, as torch.
        flags = (*self._flags, "-ffp-contract=fast", *_INCLUDES)
        return object_of(source, [self.toolchain.compiler, *flags], run)

    def images(self, sources: Sequence[Generated]) -> list[Path]:
        """The object files of sources."""
        paths = []
        for source in sources:
            for i, image in enumerate(source.images):
                paths.append(self._folder / f"{source.model}.{i}.cubin.o")
                paths[-1].write_bytes(image)
        return paths

    def instructions(self) -> list[str]:
        """Names of the instructions that the code may use."""
        defined = run([self.toolchain.compiler, *self._flags, "-dM", "-E", "-x", "c++", os.devnull])
        return [name for name, macro in _INSTRUCTIONS.items() if f" {macro} " in defined]

    def weights_code(self, content: bytes | bytearray, opt_file_name: str | None) -> str:
        """The text of the file that holds the weights, or names the file that does."""
        name = digest = begin = "nullptr"
        data = ""
        if opt_file_name is not None:
            name, digest = c_string(os.fsencode(opt_file_name)), f'"{_digest(content)}"'
        if opt_file_name is None and content:
            blob = self._folder / "weights.bin"
            blob.write_bytes(content)
            begin = "graphffi_weights_begin"
            # Behind all that is reached by short addresses.
            data = f"""
asm(".section .lrodata,\\"a\\"\\n.balign 64\\n.hidden graphffi_weights_begin\\n"
    ".globl graphffi_weights_begin\\ngraphffi_weights_begin:\\n.incbin \\"{blob}\\"\\n.previous");
extern "C" const char graphffi_weights_begin[];"""
        return f"""#include <graphffi_standalone/graph.h>
{data}
extern const graphffi_standalone::Weights graphffi_weights;
const graphffi_standalone::Weights graphffi_weights = {{{begin}, {name}, {digest}, {len(content)}}};
"""

    def link(self, objects: Sequence[Path], path: Path) -> None:
        exports = self._folder / "exports.map"
        exports.write_text(_EXPORTS)
        archive = self.toolchain.archive()
        called = {n for n in self.toolchain.undefined(*objects, archive) if n.startswith("TVMFFI")}
        run(
            [
                *(self.toolchain.compiler, "-o", str(path)),
                *("-shared", "-fopenmp", "-Wl,--gc-sections", "-Wl,--no-undefined", "-s"),
                *("-Wl,-z,noexecstack", "-Wl,-z,nodelete", f"-Wl,--version-script={exports}"),
                *map(str, objects),
                *("-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive"),
                *(str(self.toolchain.runtime(self._folder, called)), "-lm"),
            ]
        )


def run(command: Sequence[str]) -> str:
    """The output of a program.

    Raises:
        RuntimeError: If there is none, or it fails, with what it said.
        NotImplementedError: If a linker finds no definition of functions, with their names.
    """
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise RuntimeError(
            f"graphffi_torch: to_library: expected the compiler '{command[0]}', got none; "
            "install it, or name another one in CXX"
        ) from None
    except subprocess.CalledProcessError as error:
        missing = sorted(set(_UNDEFINED.findall(error.stderr)))
        if missing:
            raise NotImplementedError(
                "graphffi_torch: to_library: expected code that calls functions of its own, "
                f"got calls of {', '.join(missing)}; write the model without what needs them"
            ) from None
        raise RuntimeError(
            f"graphffi_torch: to_library: {Path(command[0]).name} failed:\n{error.stderr}"
        ) from None
