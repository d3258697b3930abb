# SPDX-License-Identifier: Apache-2.0
"""Operators whose code is torch's: found in what AOTInductor wrote, and called as kernels."""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import c_string
from graphffi_torch._library import library_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FOLDER: Final = Path(library_path()) / "standalone"
ARCHIVE: Final = FOLDER / "libgraphffi_standalone.a"
TORCH_INCLUDE: Final = Path(torch.__file__).parent / "include"
_CALL: Final = re.compile(r"\b(aoti_torch_\w+)\s*\(")
# One function serves all devices.
_OPERATOR: Final = re.compile(r"aoti_torch_(?:cpu_|cuda_|(?=index_put_out))(\w+)")
# Functions of torch's interpreter of operators: one calls it, one makes the tensors of its results.
_INTERPRETER: Final = {
    "aoti_torch_proxy_executor_call_function",
    "aoti_torch_new_uninitialized_tensor",
}
_PARAMETER: Final = re.compile(r"\s*(.+?)\s*\b(\w+)\s*\Z")
_OWN_OPERATOR: Final = re.compile(r"^GRAPHFFI_OPERATOR\((\w+),", re.MULTILINE)


@dataclass(frozen=True)
class Externs:
    """The kernels that stand for functions of torch's C interface.

    Args:
        references: Of kernels, by functions.
        own: Files of graphffi's kernels, by functions.
    """

    references: dict[str, str] = field(default_factory=dict)
    own: dict[str, Path] = field(default_factory=dict)


def find_externs(
    models: Mapping[str, tuple[str, Sequence[str], torch.export.ExportedProgram]],
    externs: Mapping[str, str],
) -> Externs:
    """The kernels that models need.

    Args:
        models: For each method what AOTInductor wrote, the operators in it that torch would
            interpret, and the program.
        externs: References of kernels by operators, which come before graphffi's own.

    Raises:
        NotImplementedError: For operators without a kernel.
    """
    given = {_plain(name): reference for name, reference in externs.items()}
    found = Externs()
    problems: list[str] = []
    for name, (code, interpreted, program) in models.items():
        problems.extend(_with_lines(name, o, [_plain(o)], program) for o in interpreted)
        for function in sorted(set(_CALL.findall(code)) - own_functions() - _INTERPRETER):
            reference = next((given[key] for key in _keys(function) if key in given), None)
            own = None if _is_for_cuda(function, code) else own_operators().get(function)
            if function not in _declarations() or (reference is None and own is None):
                keys = list(_keys(function))
                operator = f"aten.{keys[0].removesuffix('_out')}" if keys else function
                problems.append(_with_lines(name, operator, keys, program))
            elif reference is not None:
                found.references[function] = reference
            elif own is not None:
                found.own[function] = own
    if problems:
        raise NotImplementedError(
            "graphffi_torch: to_library: expected operators with code of their own, got "
            + ", ".join(dict.fromkeys(problems))
            + "; name kernels for them in externs={'aten.<operator>': 'library.so::function'}, or "
            "write the model without them" + _hint(program for *_, program in models.values())
        )
    return found


def _is_for_cuda(function: str, code: str) -> bool:
    """True for what graphffi's kernels, which are for the CPU, cannot do."""
    return "_cpu_" not in function and "cached_torch_device_type_cuda" in code


def _hint(programs: Iterable[torch.export.ExportedProgram]) -> str:
    """The reason why not even `aten.empty` has code, where it is this one."""
    values = [node.meta.get("val") for program in programs for node in program.graph.nodes]
    if any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
        return "; torch generates no code for complex tensors: use torch.view_as_real(x)"
    return ""


@functools.cache
def own_functions() -> frozenset[str]:
    """The functions of torch's C interface that libraries have of their own."""
    listed = subprocess.run(
        ["nm", "--defined-only", "--format=posix", str(ARCHIVE)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split(" ", 1)[0] for line in listed.stdout.splitlines()}
    return frozenset(names) | frozenset(product_functions())


def product_functions() -> set[str]:
    """The operators that are compiled with the code."""
    return set(_CALL.findall((FOLDER / "compiled/product.cc").read_text()))


@functools.cache
def own_operators() -> dict[str, Path]:
    """Files with kernels of graphffi's, by functions of torch's C interface."""
    return {
        f"aoti_torch_{'' if name == 'index_put_out' else 'cpu_'}{name}": path
        for path in sorted((FOLDER / "compiled/operators").glob("*.cc"))
        for name in _OWN_OPERATOR.findall(path.read_text())
    }


def _plain(operator: str) -> str:
    return operator.removeprefix("aten.").removeprefix("aten::").replace(".", "_")


def _keys(function: str) -> Iterable[str]:
    match = _OPERATOR.match(function)
    if match is None:
        return
    name = match[1]
    for each in (name, name.removesuffix("_out")):
        yield each
        # Overloads: sort_stable is named by sort, too.
        for end in ("_stable", "_Tensor", "_Scalar", "_two"):
            yield each.removesuffix(end)


def _with_lines(
    method: str, name: str, keys: list[str], program: torch.export.ExportedProgram
) -> str:
    lines = []
    for node in program.graph.nodes:
        target: Any = node.target
        packet = _plain(str(getattr(target, "overloadpacket", target)))
        names = {packet, _plain(str(target))}
        # One is often made of another: inv of inv_ex, linalg_svd of _linalg_svd.
        is_made_of = any(f"{key}_".startswith((f"{packet}_", f"_{packet}_")) for key in keys)
        if node.op == "call_function" and (is_made_of or names & set(keys)):
            lines.append(_line_of(node))
    places = ", ".join(dict.fromkeys(line for line in lines if line))
    return f"{name} in '{method}'" + (f" ({places})" if places else "")


def _line_of(node: torch.fx.Node) -> str:
    """``model.py:12`` for the innermost line of the model that made the node."""
    found = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{Path(found[-1][0]).name}:{found[-1][1]}" if found else ""


@functools.cache
def _declarations() -> dict[str, str]:
    """The parameters of torch's C functions for operators, as text."""
    folder = TORCH_INCLUDE / "torch/csrc/inductor/aoti_torch"
    pattern = re.compile(rf"AOTITorchError ({_OPERATOR.pattern})\(([^;]*)\);")
    return {
        name: parameters
        for file in ("generated/c_shim_cpu.h", "generated/c_shim_cuda.h", "c/shim.h")
        for name, _, parameters in pattern.findall((folder / file).read_text())
    }


def extern_code(externs: Externs) -> str:
    """The text of a file with functions of torch's C interface that call kernels.

    Raises:
        NotImplementedError: For an operator that takes what kernels can't be given.
    """
    functions = [
        _extern_function(function, f"({c_string(reference.encode())})", "")
        for function, reference in sorted(externs.references.items())
    ]
    for function in sorted(externs.own):
        name = next(iter(_keys(function)))
        make = f"graphffi_operator_{name}"
        declaration = f"\nTVMFFIObjectHandle {make}();"
        functions.append(_extern_function(function, f'("aten.{name}", &{make})', declaration))
    return "#include <graphffi_standalone/extern_kernel.h>\n" + "".join(functions)


def _extern_function(function: str, kernel: str, declaration: str) -> str:
    parameters = _declarations()[function]
    values, results = [], []
    opt_length = ""
    for parameter in reversed([p for p in parameters.split(",") if p.strip()]):
        kind, name = _split(function, parameter)
        if name.endswith("_len_") or name == "num_indices":
            opt_length = name
        elif re.fullmatch(r"ret\d+", name) and kind == "AtenTensorHandle*":
            results.append(name)
        elif name == "out" and kind == "AtenTensorHandle":
            results.append(name)
        elif opt_length:
            values.append(f"List({name}, {opt_length})")
            opt_length = ""
        else:
            values.append(f"Value({name})")
    values.reverse()
    results.reverse()
    return f"""{declaration}
AOTITorchError {function}({parameters}) {{
  using namespace graphffi_standalone;
  static ExternKernel kernel{kernel};
  return kernel.Call({{{", ".join(values)}}}, {{{", ".join(results)}}});
}}
"""


def _split(function: str, parameter: str) -> tuple[str, str]:
    match = _PARAMETER.match(parameter)
    kind, name = match.groups() if match else (parameter, "")
    kind = kind.replace(" *", "*")
    is_list = kind == "const AtenTensorHandle**"
    if "Generator" in kind or (kind.count("*") > 1 and not is_list):
        raise NotImplementedError(
            f"graphffi_torch: to_library: externs: {function}: expected tensors, numbers and "
            f"texts, got {kind} {name}; write the model without the operator"
        )
    return kind, name
