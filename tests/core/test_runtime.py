# SPDX-License-Identifier: Apache-2.0
"""Which runtime a process gets, and that it gets one."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import _core
from graphffi._values import runtime as _runtime

PACKAGE = Path(graphffi.__file__).parent
BUNDLED = PACKAGE / "_lib" / "libtvm_ffi.so"
SHOW = "import graphffi; r = graphffi.runtime_info(); print(r.kind, r.path); "


def apache_library() -> str:
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        pytest.skip("needs apache-tvm-ffi")
    return str(Path(spec.origin).parent / "lib" / "libtvm_ffi.so")


def test_info_is_of_the_runtime_in_use() -> None:
    info = graphffi.runtime_info()
    mapped = set(re.findall(r"/.*/libtvm_ffi\.so.*", Path("/proc/self/maps").read_text()))
    assert [Path(info.path).samefile(file) for file in mapped] == [True]
    version = (ctypes.c_int * 3)()
    ctypes.CDLL(info.path).TVMFFIGetVersion(version)
    assert info.version == tuple(version)
    assert info.kind in ("bundled", "apache", "adopted", "path")


def test_bundled_is_taken_when_asked_for(run_python: Any) -> None:
    status, output = run_python(SHOW, GRAPHFFI_RUNTIME="bundled")
    assert (status, output) == (0, f"bundled {BUNDLED}\n")


@pytest.mark.parametrize("environment", [{}, {"GRAPHFFI_RUNTIME": "apache"}])
def test_installed_one_comes_before_the_bundled(
    run_python: Any, environment: dict[str, str]
) -> None:
    library = apache_library()
    code = SHOW + "import sys; assert 'tvm_ffi' not in sys.modules"
    assert run_python(code, **environment) == (0, f"apache {library}\n")


def test_tvm_ffi_joins_the_installed_one(run_python: Any) -> None:
    apache_library()
    code = (
        SHOW + "import tvm_ffi\n"
        "@graphffi.register_global_func('joined')\n"
        "def joined(x): return x + 1\n"
        "print(tvm_ffi.get_global_func('joined')(1))\n"
        "print(open('/proc/self/maps').read().count('libtvm_ffi.so') > 0)\n"
    )
    status, output = run_python(code)
    assert status == 0
    assert output.splitlines()[1:] == ["2", "True"]


def test_loaded_one_is_adopted(run_python: Any) -> None:
    library = apache_library()
    status, output = run_python("import tvm_ffi\n" + SHOW)
    assert (status, output) == (0, f"adopted {library}\n")


def test_path_is_taken_when_asked_for(run_python: Any, tmp_path: Path) -> None:
    copy = tmp_path / "libtvm_ffi.so"
    shutil.copyfile(BUNDLED, copy)
    assert run_python(SHOW, GRAPHFFI_RUNTIME=str(copy)) == (0, f"path {copy}\n")


def test_without_an_installed_one_the_bundled_is_taken(run_python: Any) -> None:
    code = (
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        return None\n"
        "sys.path_importer_cache.clear()\n"
        "sys.path = [p for p in sys.path if 'site-packages' not in p]\n" + SHOW
    )
    status, output = run_python(code)
    assert (status, output) == (0, f"bundled {BUNDLED}\n")


def test_tvm_ffi_is_refused_on_the_bundled_one(run_python: Any) -> None:
    apache_library()
    code = (
        SHOW + "import importlib.util\n"
        "assert importlib.util.find_spec('tvm_ffi') is not None\n"
        "try: import tvm_ffi\n"
        "except ImportError as error: print(error)\n"
    )
    status, output = run_python(code, GRAPHFFI_RUNTIME="bundled")
    assert status == 0
    assert "cannot import tvm_ffi: this process runs on graphffi's bundled runtime" in output
    assert "GRAPHFFI_RUNTIME=apache" in output


def test_tvm_ffi_with_a_link_to_the_bundled_one_is_not_refused(
    run_python: Any, tmp_path: Path
) -> None:
    package = tmp_path / "tvm_ffi"
    (package / "lib").mkdir(parents=True)
    (package / "lib/libtvm_ffi.so").symlink_to(BUNDLED)
    (package / "__init__.py").write_text(
        "import ctypes, os\nlibrary = ctypes.CDLL(os.path.join("
        "os.path.dirname(__file__), 'lib', 'libtvm_ffi.so'))\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        + SHOW
        + (
            "import tvm_ffi\n"
            "maps = open('/proc/self/maps').read().split()\n"
            "print(tvm_ffi.__file__, len({m for m in maps if m.endswith('libtvm_ffi.so')}))\n"
        )
    )
    for choice in ("bundled", "apache"):
        status, output = run_python(code, GRAPHFFI_RUNTIME=choice)
        assert (status, output.splitlines()[1:]) == (0, [f"{package / '__init__.py'} 1"])


def test_choice_that_comes_too_late_is_refused(run_python: Any) -> None:
    library = apache_library()
    status, output = run_python("import tvm_ffi, graphffi", GRAPHFFI_RUNTIME="bundled")
    assert status == 1
    assert (
        f"RuntimeError: graphffi: GRAPHFFI_RUNTIME=bundled: expected {BUNDLED}, got {library}, "
        "which was loaded before graphffi was imported"
    ) in output


def test_choice_of_what_is_loaded_is_fine(run_python: Any) -> None:
    apache_library()
    status, output = run_python("import tvm_ffi\n" + SHOW, GRAPHFFI_RUNTIME="apache")
    assert (status, output.split()[0]) == (0, "adopted")


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ("/no/such.so", "cannot load the runtime '/no/such.so': there is no such file"),
        (__file__, "cannot load the runtime"),
        ("apach", "expected bundled, apache or the path of a library, got 'apach'"),
    ],
)
def test_bad_choice_is_refused(run_python: Any, choice: str, text: str) -> None:
    status, output = run_python("import graphffi", GRAPHFFI_RUNTIME=choice)
    assert status == 1
    assert f"RuntimeError: graphffi: {text}" in output or text in output


def test_runtime_that_lacks_functions_is_refused(run_python: Any, tmp_path: Path) -> None:
    source, library = tmp_path / "old.c", tmp_path / "libtvm_ffi.so"
    source.write_text("int TVMFFIObjectIncRef(void* object) { return object == 0; }\n")
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libtvm_ffi.so", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    status, output = run_python("import graphffi", GRAPHFFI_RUNTIME=str(library))
    assert status == 1
    assert f"cannot use the runtime {str(library)!r}: it lacks TVMFFIAnyViewToOwnedAny" in output
    assert "TVMFFIObjectIncRef" not in output


def imported_symbols(binary: Path) -> set[str]:
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    command = ["nm", "-D", "--undefined-only", str(binary)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\bU (TVMFFI\w+)", listing))  # weak ones may be missing


def test_needed_symbols_are_those_that_the_bindings_import() -> None:
    assert imported_symbols(Path(_core.__file__)) <= set(_runtime.NEEDED_SYMBOLS)


def test_bindings_name_no_folder_of_the_runtime() -> None:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    command = ["readelf", "-d", _core.__file__]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "[libtvm_ffi.so]" in listing
    assert "RPATH" not in listing
    assert "RUNPATH" not in listing


@pytest.mark.parametrize("built", ["none", "_core.cpython-39-x86_64-linux-gnu.so"])
def test_sources_that_are_not_built_for_this_python_are_refused(built: str, tmp_path: Path) -> None:
    copy = tmp_path / "graphffi"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    if built != "none":
        (copy / built).touch()
    command = [sys.executable, "-c", "import graphffi"]  # of the current folder
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert f"graphffi: expected _core{suffix} in {str(copy)!r}, got {built}; ins" in result.stderr


def test_free_threaded_python_is_refused(run_python: Any) -> None:
    status, output = run_python("import sys; sys.abiflags = 't'; import graphffi")
    assert status == 1
    assert "ImportError: graphffi: expected Python with the GIL, got its free-threaded" in output


def test_nothing_is_built_for_free_threaded_python(run_python: Any) -> None:
    pytest.importorskip("setuptools")
    setup = Path(__file__).parents[2] / "setup.py"
    code = f"import runpy, sys; sys.abiflags = 't'; runpy.run_path({str(setup)!r})['build_tree']()"
    status, output = run_python(code)
    assert status == 1
    assert "SetupError: graphffi: expected Python with the GIL, got its free-threaded" in output


INTERPRETERS = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
KIND = "'legacy'" if sys.version_info >= (3, 13) else "isolated=False"


def test_a_sub_interpreter_is_refused(run_python: Any) -> None:
    code = f"""
import {INTERPRETERS} as interpreters
code = '''
try:
    import graphffi
except ImportError as error:
    print(error, flush=True)
'''
interpreters.run_string(interpreters.create({KIND}), code)
"""
    status, output = run_python(code)
    assert status == 0, output
    assert "expected to be imported by the main interpreter, got a sub-interpreter" in output


def test_import_creates_nothing(run_python: Any, tmp_path: Path) -> None:
    code = "import os; before = dict(os.environ); import graphffi; assert os.environ == before"
    status, output = run_python(code, HOME=str(tmp_path), GRAPHFFI_CACHE_DIR=str(tmp_path / "c"))
    assert (status, output) == (0, "")
    assert os.listdir(tmp_path) == []
