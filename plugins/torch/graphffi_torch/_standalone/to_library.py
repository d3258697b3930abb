# SPDX-License-Identifier: Apache-2.0
"""Exported programs as libraries of TVM FFI functions that need no torch."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_leaves

from graphffi.plugin import content_hash, find_library_in_use, split_reference
from graphffi_torch._export.decompose import (
    all_nodes,
    check_branches,
    check_exported,
    decompose,
    options_for_updates,
)
from graphffi_torch._export.sizes_of_one import as_exported
from graphffi_torch._export.updates import check_updates, functionalized
from graphffi_torch._operators.primitive import PRIMITIVES
from graphffi_torch._private_names import has, why_without
from graphffi_torch._standalone.build import Generated, build
from graphffi_torch._standalone.code import method_code
from graphffi_torch._standalone.externs import find_externs
from graphffi_torch._standalone.isa import ISAS, cross_compiler
from graphffi_torch._standalone.signature import Signature
from graphffi_torch._standalone.weights import WeightFile, updated_memory

_METHOD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
# Endings and names of the functions that each library exports besides its methods.
_ENDINGS: Final = ("_into", "_within")
_RESERVED: Final = ("trim_memory", "set_memory_limit")
# With these, Inductor writes sources that need no interface of torch's, and calls no compiler.
_OPTIONS: Final = {
    "aot_inductor.package_cpp_only": True,
    "aot_inductor.dynamic_linkage": False,
    "aot_inductor.precompile_headers": False,
    "aot_inductor.package_constants_on_disk_format": "binary_blob",
    "aot_inductor.package_constants_in_so": False,
    "layout_optimization": False,  # convolutions take images row by row
    "cpp.dynamic_threads": True,  # as many as the process that runs it allows
}
# Products and convolutions for CUDA are code of Inductor's, too, in the library.
_OPTIONS_FOR_CUDA: Final = {
    "aot_inductor.embed_kernel_binary": True,
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
}


def to_library(
    exported: torch.export.ExportedProgram | Mapping[str, torch.export.ExportedProgram],
    path: str | os.PathLike[str],
    *,
    weights: str = "embed",
    externs: Mapping[str, str] | None = None,
    isa: str = "native",
    options: Mapping[str, Any] | None = None,
) -> str:
    """Compiles programs into a library of TVM FFI functions that runs without torch.

    The library exports ``main``, or a function for each method, which take the tensors that the
    program takes, flattened, and return its results: one tensor, or an array of them. Functions
    ``main_into`` take tensors for the results behind the operands, ``main_within`` a tensor for the
    memory of the run before them. ``trim_memory()`` frees what the calling thread's runs keep,
    ``set_memory_limit(bytes)`` limits it. The library needs
    libtvm_ffi.so, and the C, C++ and OpenMP libraries of the system; kernels that the program calls
    by ``library.so::symbol`` are found as in packages, also beside it. Programs on CUDA run on GPUs
    like the one that is here, on the env's stream, and need CUDA's driver.

    Args:
        exported: From `torch.export.export`, or several by the names of their functions. They share
            weights, and those buffers that are one tensor.
        path: Of the library to write, ``model.so``.
        weights: ``"embed"`` puts them into the library, ``"file"`` into ``model.weights`` beside
            it, which is mapped at the first call.
        externs: Kernels for operators that have no code of their own, by their names:
            ``{"aten.topk": "library.so::topk"}``, also in place of graphffi's. A reference without
            ``::`` is a global function. They take what the operator takes, tensors row by row, and
            return its results.
        isa: The instructions that the library may use: ``"native"`` for those of this machine's
            processor, ``"avx2"`` or ``"avx512"`` for those of most. A processor that has not all of
            them gets an error from each call. ``"aarch64"`` is for ARM's of 64 bits: elsewhere, a
            cross compiler makes it (``CXX``, or ``aarch64-linux-gnu-g++``), with `cmake` and
            `ninja`.
        options: Options of Inductor.

    Returns:
        The path.

    Raises:
        NotImplementedError: For operators that have no code without torch, all of them with the
            lines of the model that call them; for what calls can't be given; for calls with side
            effects in branches and loops; and for calls of kernels where graphffi does not lower
            them (``GRAPHFFI_INDUCTOR=0``, an untested torch).
        RuntimeError: If the compiler fails, or there is none for the processor; if a kernel's
            library was built anew since it was loaded.
        FileNotFoundError: If there is no folder for the library.
        TypeError: If `exported` is no exported program, `externs` or `options` no mapping.
        ValueError: For a wrong name or path, an unknown way to keep weights, unknown instructions,
            and those of another machine with a program on CUDA; for updates of parameters,
            constants and memory that has two names.

    Example:
        >>> exported = torch.export.export(model, (x,))  # doctest: +SKIP
        >>> graphffi_torch.to_library(exported, "model.so")  # doctest: +SKIP
        >>> graphffi.load_module("model.so").main(numpy_array)  # doctest: +SKIP
    """
    programs = dict(exported) if isinstance(exported, Mapping) else {"main": exported}
    _check_arguments(programs, path, weights, isa)
    _check_mappings(externs, options)
    devices = {name: _device_of(name, program) for name, program in programs.items()}
    if "cuda" in devices.values():
        _check_cuda(isa, options or {})
    cross_compiler(ISAS[isa].machine)  # before anything is compiled
    decomposed = {name: _flat(decompose(program)) for name, program in programs.items()}
    for program in decomposed.values():
        check_branches("to_library", program)
    called = set(_kernels(decomposed.values()))
    if called and not has("lowerings"):
        reason = why_without("lowerings") or "GRAPHFFI_INDUCTOR=0"
        raise NotImplementedError(
            f"graphffi_torch: to_library: expected programs without calls of kernels ({reason}), "
            f"got calls of {', '.join(sorted(called))}"
        )
    with _without_onednn():  # as it is compiled: or convolutions have guards of oneDNN's
        functionals = {key: functionalized(f"to_library: {key}", p) for key, p in programs.items()}
    signatures = {name: Signature.of(name, programs[name], functionals[name]) for name in programs}
    # What one method updates, others read where it writes it.
    updated = updated_memory(programs, signatures)
    chosen = {
        **(_OPTIONS_FOR_CUDA if "cuda" in devices.values() else {}),
        **(options_for_updates() if updated else {}),
        **ISAS[isa].options,
        **(options or {}),
    }
    generated = {
        name: _generate(name, program, devices[name], chosen)
        for name, program in decomposed.items()
    }
    found = find_externs(
        {name: (g.code, g.interpreted, programs[name]) for name, g in generated.items()},
        externs or {},
    )
    kept = WeightFile(updated)
    sources = []
    for name, code in generated.items():
        constants = kept.add(name, code.code, code.weights, decomposed[name])
        signature = Signature.of(name, programs[name], functionals[name])  # torch has found more
        text = method_code(signature, code.model, code.device, code.code, constants)
        sources.append(replace(code, code=text))
    kernels = sorted(called.union(found.references.values()))
    build(
        *(Path(path), sources, kept, found),
        is_embedded=weights == "embed",
        isa=isa,
        kernels=[_with_hash(kernel) for kernel in kernels],
    )
    return os.fspath(path)


def _flat(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with its arguments, and its results, in one tuple.

    Torch writes down how they are nested, but not in named tuples and data classes.
    """
    entry, values = program.module_call_graph[0], program.example_inputs
    if values is None:
        return program
    leaves = tuple(tree_leaves(values))
    results = tuple(range(program.call_spec.out_spec.num_leaves))
    _, given = tree_flatten((leaves, {}))
    _, nesting = tree_flatten(results)
    entry.signature = replace(entry.signature, in_spec=given, out_spec=nesting)
    program.example_inputs = leaves, {}
    return program


def _kernels(programs: Iterable[torch.export.ExportedProgram]) -> Iterator[str]:
    """References of the kernels that decomposed programs call."""
    for program in programs:
        for _, node in all_nodes(program.graph_module):
            if node.target in PRIMITIVES:
                yield str(node.args[0])


def _with_hash(reference: str) -> str:
    """``library.so::symbol (sha256 …)``, where the library is there."""
    library, _ = split_reference(reference)
    file = find_library_in_use("graphffi_torch: to_library", library) if library else None
    return f"{reference} (sha256 {content_hash(file)})" if file else reference


def _check_arguments(
    programs: Mapping[str, torch.export.ExportedProgram],
    path: str | os.PathLike[str],
    weights: str,
    isa: str,
) -> None:
    for name, program in programs.items():
        check_exported("to_library", program)
        if not _METHOD.match(str(name)) or name.endswith(_ENDINGS) or name in _RESERVED:
            raise ValueError(
                "graphffi_torch: to_library: expected names of functions that are identifiers, do "
                f"not end in {' or '.join(_ENDINGS)} and are not {' or '.join(_RESERVED)}, got "
                f"{name!r}"
            )
        check_updates(f"to_library: {name}", program)
    if not programs:
        raise ValueError("graphffi_torch: to_library: expected a program, got none")
    if not os.fspath(path).endswith(".so"):
        raise ValueError(
            f"graphffi_torch: to_library: expected a path that ends in '.so', got "
            f"{os.fspath(path)!r}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(
            f"graphffi_torch: to_library: expected a path in a folder, got {os.fspath(path)!r}"
        )
    if weights not in ("embed", "file"):
        raise ValueError(
            f"graphffi_torch: to_library: weights: expected 'embed' or 'file', got {weights!r}"
        )
    if isa not in ISAS:
        raise ValueError(
            f"graphffi_torch: to_library: isa: expected {', '.join(ISAS)}, got {isa!r}"
        )


def _check_mappings(externs: Any, options: Any) -> None:
    for name, given in (("externs", externs), ("options", options)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(
                f"graphffi_torch: to_library: {name}: expected a mapping, got {given!r}"
            )
    for name, reference in (externs or {}).items():
        if not isinstance(name, str) or not isinstance(reference, str):
            raise TypeError(
                "graphffi_torch: to_library: externs: expected references of kernels by operators, "
                f"got {reference!r} for {name!r}"
            )


def _device_of(name: str, program: torch.export.ExportedProgram) -> str:
    """The kind of device that a program runs on: ``"cpu"`` or ``"cuda"``."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    kinds = {value.device.type for value in values if isinstance(value, torch.Tensor)}
    if not kinds <= {"cpu", "cuda"}:
        raise NotImplementedError(
            f"graphffi_torch: to_library: {name}: expected tensors on cpu or cuda, got some on "
            f"{', '.join(sorted(kinds - {'cpu', 'cuda'}))}"
        )
    return "cuda" if "cuda" in kinds else "cpu"


def _check_cuda(isa: str, options: Mapping[str, Any]) -> None:
    if ISAS[isa].machine != platform.machine():
        raise ValueError(
            f"graphffi_torch: to_library: isa: expected instructions of {platform.machine()} for a "
            f"program on cuda, got {isa!r}; make the library on such a machine"
        )
    if options.get("aot_inductor.emit_multi_arch_kernel"):
        raise ValueError(
            "graphffi_torch: to_library: options: expected no aot_inductor.emit_multi_arch_kernel, "
            "got it; make a library for each kind of GPU"
        )


def _generate(
    name: str, program: torch.export.ExportedProgram, device: str, options: Mapping[str, Any]
) -> Generated:
    import torch._inductor

    # Torch never writes a file of a name twice, whatever the options were the first time.
    model = f"{name}_{uuid.uuid4().hex[:12]}"
    configs: dict[str, Any] = {
        **_OPTIONS,
        **options,
        "aot_inductor.model_name_for_generated_files": model,
    }
    settings = sdpa_kernel([SDPBackend.MATH]), _without_onednn(), as_exported(program)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for setting in settings:
            stack.enter_context(setting)
        written: Any = torch._inductor.aoti_compile_and_package(
            program, package_path=f"{folder}/{model}.pt2", inductor_configs=configs
        )
        with zipfile.ZipFile(written) as archive:
            return _read(model, device, archive)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Makes torch decompose LSTMs into products, and use no operators of oneDNN."""
    backend: Any = torch.backends.mkldnn
    before = backend.enabled
    backend.enabled = False
    try:
        yield
    finally:
        backend.enabled = before


def _read(model: str, device: str, archive: zipfile.ZipFile) -> Generated:
    files = {Path(entry).name: entry for entry in archive.namelist()}

    def content(ending: str) -> bytes:
        names = [entry for name, entry in files.items() if name.endswith(ending)]
        return archive.read(names[0]) if names else b""

    nodes = json.loads(content(".wrapper.json") or "{}").get("nodes", ())
    targets = dict.fromkeys(node["node"]["target"] for node in nodes)
    return Generated(
        model,
        content(".wrapper.cpp").decode(),
        content(f"{model}.h").decode(),
        json.loads(content("_compile_flags.json")),
        device,
        content(".blob"),
        [target.replace("::", ".") for target in targets],
        # All in one, or (torch before 2.13, or where that fails) one for each.
        [archive.read(entry) for name, entry in files.items() if re.search(r"cubin.*\.o$", name)],
    )
