# SPDX-License-Identifier: Apache-2.0
"""Who may include or import whom; the same table stands in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphffi_torch._private_names import TABLE

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# What an #include is, by its first path component or by its whole name; the rest is the standard
# library (or POSIX), where it is in angle brackets and names no folder but sys/ and linux/.
FOLDERS = {
    "dlpack": "dlpack",
    "tvm": "tvm/ffi",
    "graphffi": "tvm/ffi",  # op.h, beside them
    "call": "call",
    "observe": "observe",
    "env": "env",
    "kernels": "kernels",
    "shapes": "shapes",
    "hooks": "hooks",
    "modules": "modules",
    "runtime": "runtime",
    "bindings": "bindings",
    "gil": "gil",
    "pybind11": "pybind11",
    "torch": "torch",
    "ATen": "torch",
    "c10": "torch",
    "caffe2": "torch",
    "graphffi_torch": "graphffi_torch",
    "graphffi_standalone": "graphffi_standalone",
    "compiled": "compiled",  # with the code of graphs
    "ort": "ort",  # what the ONNX Runtime plugin needs of ONNX Runtime
    "xla": "xla",
    "cuda": "cuda",
}
FILES = [
    (re.compile(r"torch/csrc/inductor/aoti_torch/.*"), "torch C"),
    (re.compile(r"torch/csrc/inductor/aoti_runtime/.*|torch/headeronly/.*"), "torch types"),
    (re.compile(r"Python\.h|structmember\.h|frameobject\.h"), "python"),
    (re.compile(r"torch/(extension|python)\.h|torch/csrc/.*python.*|.*/THP\w*\.h"), "torch-python"),
    (re.compile(r"cuda\w*\.h|nv\w+\.h"), "cuda"),
    (re.compile(r"onnxruntime_\w+\.h"), "onnxruntime"),
    (re.compile(r"tvm/ffi/c_api\.h|tvm/ffi/extra/c_env_api\.h"), "c_api"),
]


@dataclass(frozen=True)
class NativeLayer:
    """The files of one layer; what they may include besides the standard library and each other."""

    folder: str
    may: frozenset[str]
    pattern: str = "**/*"
    but: tuple[str, ...] = ()  # parts of paths that belong to another layer
    own_headers: str = ""  # a folder whose headers it names without a path

    def files(self) -> list[Path]:
        found = sorted((ROOT / self.folder).glob(self.pattern))
        files = [f for f in found if f.suffix in (".h", ".cc", ".c", ".cu", ".cpp", ".cuh")]
        return [f for f in files if not any(part in f.as_posix() for part in self.but)]


FFI = frozenset({"c_api", "tvm/ffi", "dlpack"})
STANDALONE = frozenset({"graphffi_standalone", "compiled"})
CALLS = frozenset({"call", "observe", "env", "kernels", "shapes", "hooks"})
NATIVE = {
    "c_api": NativeLayer("csrc/include/tvm/ffi", frozenset({"dlpack"}), "c_api.h"),
    "headers": NativeLayer("csrc/include", FFI, but=("/c_api.h", "/extra/cuda/")),
    "cuda headers": NativeLayer("csrc/include/tvm/ffi/extra/cuda", FFI | {"cuda"}),
    "runtime": NativeLayer("csrc/runtime", FFI | {"runtime"}, but=("/exports/",)),
    "exports": NativeLayer("csrc/runtime/exports", frozenset({"c_api", "runtime"})),
    "call": NativeLayer("csrc/call", FFI | {"call", "observe"}),
    "observe": NativeLayer("csrc/observe", FFI | {"call", "observe"}),
    "env": NativeLayer("csrc/env", FFI | {"call", "env"}),
    "kernels": NativeLayer("csrc/kernels", FFI | {"call", "kernels"}),
    "shapes": NativeLayer("csrc/shapes", FFI | {"call", "shapes"}),
    "hooks": NativeLayer("csrc/hooks", frozenset({"c_api", "dlpack", "hooks"})),
    "gil": NativeLayer("csrc/gil", frozenset({"call", "gil", "python"})),
    "modules": NativeLayer("csrc/modules", FFI | {"modules"}),
    "bindings": NativeLayer(
        "csrc/bindings", FFI | CALLS | {"gil", "modules", "bindings", "pybind11", "python"}
    ),
    "torch plugin": NativeLayer(
        "plugins/torch/csrc",
        FFI | CALLS | {"torch", "torch C", "graphffi_torch"},
        but=("/csrc/python/", "/csrc/standalone/"),
        own_headers="plugins/torch/csrc",
    ),
    "torch plugin, _C": NativeLayer(
        "plugins/torch/csrc/python",
        FFI | CALLS | {"gil", "torch", "graphffi_torch", "torch-python", "python", "pybind11"},
        own_headers="plugins/torch/csrc",
    ),
    "standalone": NativeLayer(
        "plugins/torch/csrc/standalone",
        FFI | CALLS | {"modules", "torch C", "torch types", "graphffi_torch"} | STANDALONE,
        but=("/compiled/attention.cc",),
        own_headers="plugins/torch/csrc/standalone",
    ),
    # Defines functions that torch's headers declare, for the code of flex attention.
    "standalone, attention": NativeLayer(
        "plugins/torch/csrc/standalone/compiled",
        STANDALONE | {"torch"},
        pattern="attention.cc",
    ),
    "jax plugin": NativeLayer("plugins/jax/csrc", FFI | CALLS | {"xla"}),
    "onnxruntime plugin": NativeLayer("plugins/onnxruntime/csrc", FFI | CALLS | {"modules", "ort"}),
    "examples": NativeLayer("examples", FFI | {"cuda"}, but=("/llama_block_cpp/",)),
    "C++ program": NativeLayer("examples/llama_block_cpp", frozenset({"torch", "graphffi_torch"})),
}


@dataclass(frozen=True)
class PythonLayer:
    """The modules of one layer and what they may never import."""

    folder: str
    never: frozenset[str]
    at_import_never: frozenset[str] = frozenset()
    # Private names that its files may use, of frameworks that have no public ones for their task:
    # `file: name`. Whoever has a name may have what is in it, and be imported for it.
    private: frozenset[str] = frozenset()


PYTHON = {
    "graphffi": PythonLayer(
        "graphffi",
        never=frozenset(
            {"torch", "jax", "jaxlib", "onnx", "onnxruntime", "tvm"}
            | {"graphffi_torch", "graphffi_jax", "graphffi_onnxruntime", "graphffi_tvm"}
        ),
        at_import_never=frozenset({"numpy", "ml_dtypes", "tvm_ffi"}),
        private=frozenset(
            {
                "import_hook.py: _initializing",  # of a module that is being imported
                "plugins.py: _initializing",
                "fresh.py: _exit",  # documented, of os
                "_worker.py: _exit",
                "_device.py: _exit",
                "signature.py: _fields",  # documented, of NamedTuples
            }
        ),
    ),
    "graphffi_torch": PythonLayer(
        "plugins/torch/graphffi_torch",
        never=frozenset({"jax", "jaxlib", "graphffi_jax", "tvm", "graphffi_tvm"}),
        private=frozenset(f"{file}: {row.name}" for row in TABLE for file in row.files),
    ),
    "graphffi_jax": PythonLayer(
        "plugins/jax/graphffi_jax",
        never=frozenset({"torch", "graphffi_torch", "tvm", "graphffi_tvm"}),
    ),
    "graphffi_tvm": PythonLayer(
        "plugins/tvm/graphffi_tvm",
        never=frozenset({"jax", "jaxlib", "graphffi_jax"}),
    ),
    "graphffi_onnxruntime": PythonLayer(
        "plugins/onnxruntime/graphffi_onnxruntime",
        never=frozenset({"jax", "jaxlib", "graphffi_jax"}),
    ),
}


def kind_of_include(bracket: str, name: str) -> str:
    """The word by which `NativeLayer.may` speaks of an included file."""
    for pattern, kind in FILES:
        if pattern.fullmatch(name):
            return kind
    folder = name.partition("/")[0] if "/" in name else ""
    if folder in FOLDERS:
        return FOLDERS[folder]
    if bracket == "<" and folder in ("", "linux", "sys"):
        return "std"
    return f"unknown ({name})"


def include_violations(layer: NativeLayer, path: Path, text: str) -> list[str]:
    """The includes of one file that its layer does not allow."""
    found = []
    for bracket, name in INCLUDE.findall(text):
        folders = [path.parent, ROOT / layer.own_headers] if layer.own_headers else [path.parent]
        if bracket == '"' and any((folder / name).exists() for folder in folders):
            continue
        kind = kind_of_include(bracket, name)
        if kind != "std" and kind not in layer.may:
            found.append(f"{path}: includes {name}, which is {kind}")
    return found


IMPORTERS = ("import_module", "__import__")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
ACCESSORS = ("getattr", "setattr", "hasattr", "delattr")


def imports(node: ast.AST, *, at_import: bool = True) -> Iterator[tuple[str, bool]]:
    """Dotted names that are imported below `node`, and whether that happens at import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, at_import) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0:
            yield from ((f"{child.module}.{alias.name}", at_import) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from ((name, False) for name, _ in imports(child, at_import=False))
        else:
            if isinstance(child, ast.Call) and ast.unparse(child.func).endswith(IMPORTERS):
                names = [a.value for a in child.args[:1] if isinstance(a, ast.Constant)]
                yield from ((str(name), at_import) for name in names)
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from imports(child, at_import=at_import and not is_function)


class Spelled(ast.NodeTransformer):
    """Writes ``getattr(x, "name")`` and its kind as ``x.name``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func).endswith(ACCESSORS) and len(node.args) > 1:
            owner, name = node.args[:2]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                rest = ast.Tuple(node.args[2:], ast.Load())
                named = ast.Attribute(owner, name.value, ast.Load())
                return ast.Tuple([named, rest], ast.Load())
        return node


def aliases(tree: ast.AST) -> dict[str, str]:
    """The dotted names that a file's own names stand for, by imports and assignments."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            found.update((a.asname, a.name) for a in node.names if a.asname)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if DOTTED.fullmatch(text := ast.unparse(node.value)):
                found.update((t.id, text) for t in targets if isinstance(t, ast.Name))
    return found


def attribute_chains(tree: ast.AST) -> Iterator[str]:
    """Dotted names, such as ``torch._C._get_tracing_state``, that code uses, aliases resolved."""
    known = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and DOTTED.fullmatch(text := ast.unparse(node)):
            seen: set[str] = set()
            while (first := text.partition(".")[0]) in known and first not in seen:
                seen.add(first)
                text = known[first] + text[len(first) :]
            yield text


def is_private(name: str) -> bool:
    """Whether a dotted name goes through a framework's private part. All of jaxlib is private."""
    top, *rest = name.split(".")
    parts = [part for part in rest if part.startswith("_") and not part.startswith("__")]
    return top in ("torch", "jax", "jaxlib") and (bool(parts) or top == "jaxlib")


def private_attributes(tree: ast.AST) -> Iterator[str]:
    """Attributes such as ``x._schema`` of objects that are not the file's own."""
    nodes = list(ast.walk(tree))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in attributes:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own.add(node.attr)
    for node in attributes:
        is_hidden = node.attr.startswith("_") and not node.attr.startswith("__")
        if is_hidden and node.attr not in own and not is_private(ast.unparse(node)):
            yield node.attr


def may_use(layer: PythonLayer, file: str, name: str) -> bool:
    """Whether a private name is one of the layer's table, in it, or has it."""
    for row in layer.private:
        row_file, _, known = row.partition(": ")
        covers = f"{known}.".startswith(f"{name}.") or f"{name}.".startswith(f"{known}.")
        if row_file == file and (covers or known.endswith(f".{name}")):
            return True
    return False


def import_violations(layer: PythonLayer, path: Path, text: str) -> list[str]:
    """The imports and private names of one module that its layer does not allow."""
    tree = Spelled().visit(ast.parse(text))
    found = []
    for name, at_import in imports(tree):
        top = name.partition(".")[0]
        if top in layer.never or (at_import and top in layer.at_import_never):
            found.append(f"{path}: imports {name}" + (" at import" if at_import else ""))
        if is_private(name) and not may_use(layer, path.name, name):
            found.append(f"{path}: imports {name}, a private name")
        own = layer.folder.rpartition("/")[2]
        is_other = top in ("graphffi", "graphffi_torch") and top != own != "graphffi"
        if is_other and "._" in name:
            found.append(f"{path}: imports {name}, a private name of {top}")
        if own == "graphffi" and top == "graphffi":
            found.append(f"{path}: imports {name} by its absolute name")
    privates = {chain for chain in attribute_chains(tree) if is_private(chain)}
    found.extend(
        f"{path}: uses {name}, a private name"
        for name in sorted(privates | set(private_attributes(tree)))
        if not may_use(layer, path.name, name)
    )
    return found


@pytest.mark.parametrize("name", NATIVE)
def test_native_code_includes_only_what_its_layer_may(name: str) -> None:
    layer = NATIVE[name]
    files = layer.files()
    assert files, f"no files in {layer.folder}: has the layout changed?"
    found = [v for file in files for v in include_violations(layer, file, file.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PYTHON)
def test_python_code_imports_only_what_its_layer_may(name: str) -> None:
    layer = PYTHON[name]
    files = sorted((ROOT / layer.folder).rglob("*.py"))
    assert files, f"no modules in {layer.folder}: has the layout changed?"
    found = [v for file in files for v in import_violations(layer, file, file.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("c_api", "#include <tvm/ffi/any.h>"),
        ("c_api", "#include <torch/torch.h>"),
        ("headers", "#include <cuda_runtime.h>"),
        ("headers", "#include <pybind11/pybind11.h>"),
        ("runtime", "#include <Python.h>"),
        ("call", '#include "kernels/library.h"'),
        ("hooks", '#include "tvm/ffi/any.h"'),
        ("call", "#include <ATen/ATen.h>"),
        ("modules", "#include <cuda.h>"),
        ("bindings", "#include <torch/torch.h>"),
        ("torch plugin", "#include <torch/extension.h>"),
        ("torch plugin", "#include <pybind11/pybind11.h>"),
        ("torch plugin, _C", "#include <xla/ffi/api/c_api.h>"),
        ("standalone", "#include <ATen/ATen.h>"),
        ("standalone", "#include <c10/util/Exception.h>"),
        ("jax plugin", "#include <Python.h>"),
        ("onnxruntime plugin", "#include <onnxruntime_c_api.h>"),
        ("examples", "#include <call/plan.h>"),
        ("examples", '#include "nowhere/else.h"'),
    ],
)
def test_the_guard_sees_a_forbidden_include(name: str, line: str) -> None:
    assert include_violations(NATIVE[name], ROOT / "file.cc", f"// text\n  {line}\n")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("graphffi", "import torch"),
        ("graphffi", "def f():\n  import torch"),
        ("graphffi", "try:\n  import numpy\nexcept ImportError:\n  pass"),
        ("graphffi", "class A:\n  from numpy import array"),
        ("graphffi", "def f():\n  return __import__('torch')"),
        ("graphffi", "def f():\n  return importlib.import_module('jax.dlpack')"),
        ("graphffi", "from graphffi._definition.op import Op"),
        ("graphffi_torch", "import jax.numpy"),
        ("graphffi_torch", "from torch._inductor import ir"),
        ("graphffi_torch", "import torch\ntorch._C._get_tracing_state()"),
        ("graphffi_torch", "from graphffi._definition.op import Op"),
        ("graphffi_torch", "from graphffi import _op"),
        ("graphffi_torch", "def f(operator):\n  return operator._schema.name"),
        ("graphffi_torch", "def f(x):\n  return x.untyped_storage()._cdata"),
        ("graphffi_torch", "from torch import _C"),
        ("graphffi_torch", "import torch._lowrank as lowrank"),
        ("graphffi_torch", "def f():\n  return getattr(torch, '_C').Graph"),
        ("graphffi_torch", "def f(operator):\n  return getattr(operator, '_schema', None)"),
        ("graphffi_torch", "def f(x):\n  setattr(x, '_private', 1)"),
        ("graphffi", "def f(function):\n  function._private = True"),
        ("graphffi_jax", "from jax._src import core"),
        ("graphffi_jax", "from jaxlib import xla_client"),
        ("graphffi_jax", "import jaxlib.mlir.ir"),
        ("graphffi_jax", "def f():\n  import torch"),
        ("graphffi_tvm", "import jax"),
        ("graphffi_tvm", "from graphffi._contract.plan import plan_tokens"),
        ("graphffi_tvm", "from graphffi_torch._operators.primitive import Primitive"),
    ],
)
def test_the_guard_sees_a_forbidden_import(name: str, line: str) -> None:
    assert import_violations(PYTHON[name], ROOT / "file.py", line)


@pytest.mark.parametrize(
    "line",
    [
        "from torch._inductor import ir\nir.Pointwise.create",
        "from torch._inductor import ir as nodes\nnodes.Pointwise",
        "import torch._inductor.ir as nodes\nnodes.Pointwise",
        "import torch\nnodes = torch._inductor.ir\nnodes.Pointwise",
        "import torch\nnodes: object = torch._inductor.ir\nnodes.Pointwise",
        "from torch._inductor import ir\ngetattr(ir, 'Pointwise')",
    ],
)
def test_the_guard_sees_what_a_file_has_of_a_module_that_it_may_import(line: str) -> None:
    known = line.replace("Pointwise", "FallbackKernel")
    path = ROOT / "inductor.py"
    assert not import_violations(PYTHON["graphffi_torch"], path, known.replace(".create", ""))
    assert import_violations(PYTHON["graphffi_torch"], path, line)


@pytest.mark.parametrize("layer", PYTHON.values(), ids=PYTHON)
def test_tables_of_private_names_have_no_row_too_many(layer: PythonLayer) -> None:
    for row in layer.private:
        file, _, name = row.partition(": ")
        text = next((ROOT / layer.folder).rglob(file)).read_text()
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", text), f"{row}: is not used"


def test_the_guard_allows_what_layers_may_do() -> None:
    late = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import numpy\ndef f(): import numpy"
    )
    assert not import_violations(PYTHON["graphffi"], ROOT / "file.py", late)
    private = "from torch._inductor import ir\ndef f(self): return self._own"
    assert not import_violations(PYTHON["graphffi_torch"], ROOT / "inductor.py", private)
    assert import_violations(PYTHON["graphffi_torch"], ROOT / "effects.py", private)
    includes = "#include <tvm/ffi/tvm_ffi.h>\n#include <vector>\n#include <sys/mman.h>\n"
    assert not include_violations(NATIVE["examples"], ROOT / "file.cc", includes)
