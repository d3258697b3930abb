# SPDX-License-Identifier: Apache-2.0
"""Libraries that do not load say which file it is and why; the check of what they are bound to."""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphffi
from graphffi import _core

LOADERS = {
    "load_module": graphffi.load_module,
    "kernel reference": lambda path: _core.resolve_kernel(f"{path}::f"),
}


def compile_c(path: Path, source: str, *flags: str) -> Path:
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), *flags]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def missing(folder: Path) -> Path:
    return folder / "lib.so"


def text_file(folder: Path) -> Path:
    (folder / "lib.so").write_text("no library")
    return folder / "lib.so"


def truncated(folder: Path) -> Path:
    source = "char content[100000] = {1};\nint __tvm_ffi_f(void) { return 0; }\n"
    library = compile_c(folder / "whole.so", source)
    (folder / "lib.so").write_bytes(library.read_bytes()[:9000])
    return folder / "lib.so"


def truncated_header(folder: Path) -> Path:
    truncated(folder).write_bytes((folder / "whole.so").read_bytes()[:100])
    return folder / "lib.so"


def other_machine(folder: Path) -> Path:
    library = compile_c(folder / "lib.so", "int __tvm_ffi_f(void) { return 0; }\n")
    content = bytearray(library.read_bytes())
    content[18:20] = (0xF7).to_bytes(2, "little")  # e_machine: BPF
    library.write_bytes(content)
    return library


def undefined_symbol(folder: Path) -> Path:
    # Called on no path that is taken, so that only binding at once finds it.
    source = "int missing_symbol(void);\nint __tvm_ffi_f(void) { return missing_symbol(); }\n"
    return compile_c(folder / "lib.so", source)


def undefined_symbol_of_tvm(folder: Path) -> Path:
    # As in what TileLang exports for CUDA.
    source = "int TVMBackendGetFuncFromEnv(void);\n"
    source += "int __tvm_ffi_f(void) { return TVMBackendGetFuncFromEnv(); }\n"
    return compile_c(folder / "lib.so", source)


def missing_dependency(folder: Path) -> Path:
    name = "-Wl,-soname,libneeded_one.so"
    needed = compile_c(folder / "libneeded_one.so", "int needed(void) { return 1; }\n", name)
    source = "int needed(void);\nint __tvm_ffi_f(void) { return needed(); }\n"
    library = compile_c(folder / "lib.so", source, f"-L{folder}", "-lneeded_one")
    needed.unlink()
    return library


BROKEN: dict[Callable[[Path], Path], str] = {
    missing: r"expected a file, got none",
    text_file: r"(invalid ELF header|file too short)",
    truncated: r"expected a library of at least \d+ bytes, got 9000: it is truncated",
    truncated_header: r"expected a library of at least \d+ bytes, got 100: it is truncated",
    other_machine: r"\w+",
    undefined_symbol: r"undefined symbol: missing_symbol; was it built for another runtime\?",
    undefined_symbol_of_tvm: r"undefined symbol: TVMBackendGetFuncFromEnv; "
    r"it needs TVM's own runtime: import tvm, or tilelang, before graphffi",
    missing_dependency: r"libneeded_one\.so: cannot open shared object file: .*",
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_broken_library_is_refused_by_name_and_reason(
    tmp_path: Path, make: Callable[[Path], Path], load: Callable[[Path], Any]
) -> None:
    path = make(tmp_path)
    with pytest.raises(RuntimeError) as caught:
        load(path)
    text = rf"graphffi: cannot load '{re.escape(str(path))}': .*{BROKEN[make]}"
    assert re.fullmatch(text, str(caught.value)), caught.value


def test_an_exception_of_a_static_initialiser_is_one_of_the_library(
    run_python: Any, tmp_path: Path
) -> None:
    source = """#include <stdexcept>
    static int x = [] { throw std::runtime_error("boom"); return 0; }();
    """
    command = ["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(tmp_path / "lib.so")]
    subprocess.run(command, input=source, text=True, check=True)
    code = f"""
import graphffi
from graphffi import _core
for load in (graphffi.load_module, lambda path: _core.resolve_kernel(path + "::f")) * 2:
    try:
        load({str(tmp_path / "lib.so")!r})
    except RuntimeError as error:
        print(error)
"""
    text = f"graphffi: cannot load '{tmp_path}/lib.so': its static initialisers raised 'boom'; end"
    status, output = run_python(code, GRAPHFFI_RUNTIME=graphffi.runtime_info().path)
    assert (status, output.count(text)) == (0, 4), output


def test_a_child_of_fork_waits_for_no_thread_of_its_parent(run_python: Any, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    library = compile_c(tmp_path / "lib.so", "int __tvm_ffi_f(void) { return 0; }\n")
    code = f"""
import itertools, os, signal, threading, warnings
import graphffi
import numpy

warnings.simplefilter("ignore")  # Python warns of fork if there are threads
numbers, is_done = itertools.count(), False

def work():
    graphffi.load_module({str(library)!r})
    name = f"mytest::forked_{{os.getpid()}}_{{next(numbers)}}"
    op = graphffi.define_op(
        name, schema="(Tensor x) -> Tensor", kernel=lambda *_: None, infer=graphffi.like
    )
    op(numpy.ones(1))

def work_on():
    while not is_done:
        work()

threads = [threading.Thread(target=work_on, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
is_done = True
for thread in threads:
    thread.join()
"""
    assert run_python(code, GRAPHFFI_RUNTIME=graphffi.runtime_info().path) == (0, "")


def test_calls_import_no_module_of_graphffi(run_python: Any) -> None:
    """A child of fork would wait for a thread of its parent that is importing it."""
    pytest.importorskip("numpy")
    code = """
import sys
import graphffi
import numpy

known = set(sys.modules)
op = graphffi.define_op(
    "mytest::first", schema="(Tensor x) -> Tensor", kernel=lambda *_: None, infer=graphffi.like
)
op(numpy.ones(1))
graphffi.Function(lambda *values: None)(1, "text", [1], {"a": 1}, len, numpy.ones(1))
print(sorted(set(sys.modules) - known))
"""
    assert run_python(code, GRAPHFFI_RUNTIME=graphffi.runtime_info().path) == (0, "[]\n")


def test_a_hidden_function_is_named(tmp_path: Path) -> None:
    source = "int __tvm_ffi_f(void) { return 0; }\n"
    module = graphffi.load_module(compile_c(tmp_path / "lib.so", source, "-fvisibility=hidden"))
    text = r"got 'f', from a file that hides it; is __tvm_ffi_f extern \"C\", visible\?"
    with pytest.raises(AttributeError, match=text):
        module.f  # noqa: B018


def test_a_removed_file_exports_no_names(tmp_path: Path) -> None:
    library = compile_c(tmp_path / "lib.so", "int __tvm_ffi_f(void) { return 0; }\n")
    module = graphffi.load_module(library)
    library.unlink()
    assert not hasattr(module, "g")
    assert module.function_names() == []
    module.f()


def test_same_library_is_the_same_module(kernels_path: str, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(kernels_path)
    assert graphffi.load_module(link) == graphffi.load_module(kernels_path)


def test_copies_are_the_same_objects(kernels: graphffi.Module) -> None:
    function = kernels.get_function(kernels.function_names()[0])
    for original in (kernels, function):
        held = SimpleNamespace(value=original)
        assert copy.copy(original) is copy.deepcopy(held).value is original


def test_10000_loads_calls_and_failures_leave_memory_flat(run_python: Any, tmp_path: Path) -> None:
    library = compile_c(tmp_path / "lib.so", "int __tvm_ffi_f(void) { return 0; }\n")
    (tmp_path / "bad").mkdir()
    bad = undefined_symbol(tmp_path / "bad")
    code = f"""
import ctypes, graphffi
from graphffi import _core

class Usage(ctypes.Structure):  # mallinfo2; uordblks is the eighth field
    _fields_ = [("fields", ctypes.c_size_t * 10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Usage

def work(times):
    for _ in range(times):
        graphffi.load_module({str(library)!r}).f()
        _core.resolve_kernel({str(library)!r} + "::f")()
        for load in (graphffi.load_module, lambda path: _core.resolve_kernel(path + "::f")):
            try:
                load({str(bad)!r})
            except RuntimeError:
                pass

work(200)
before = libc.mallinfo2().fields[7]
work(5000)
grown = libc.mallinfo2().fields[7] - before
assert grown < 200_000, grown
"""
    assert run_python(code, GRAPHFFI_RUNTIME=graphffi.runtime_info().path) == (0, "")
