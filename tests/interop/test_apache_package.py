# SPDX-License-Identifier: Apache-2.0
"""The Python package of apache-tvm-ffi: on the bundled runtime, and beside graphffi."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

import graphffi

BUNDLED = Path(graphffi.__file__).parent / "_lib" / "libtvm_ffi.so"
Run = Callable[..., str]


@pytest.fixture(scope="session")
def package_on_bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, whose library is graphffi's."""
    try:
        distribution = metadata.distribution("apache-tvm-ffi")
    except metadata.PackageNotFoundError:
        pytest.skip("apache-tvm-ffi is not installed")
    folder = tmp_path_factory.mktemp("package")
    installed = Path(str(distribution.locate_file("")))
    shutil.copytree(installed / "tvm_ffi", folder / "tvm_ffi")
    for info in installed.glob("apache_tvm_ffi-*.dist-info"):
        shutil.copytree(info, folder / info.name)
    library = folder / "tvm_ffi" / "lib" / "libtvm_ffi.so"
    library.unlink()
    library.symlink_to(BUNDLED)
    return folder


@pytest.fixture
def run() -> Run:
    """Runs code in a fresh process and returns what it prints."""

    def run_code(code: str, *arguments: str, path: Path | None = None) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "GRAPHFFI_RUNTIME"}
        if path is not None:
            old = environment.get("PYTHONPATH", "")
            environment["PYTHONPATH"] = os.pathsep.join([str(path), *filter(None, [old])])
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, *arguments],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run_code


USE_OF_THE_PACKAGE = """
import copy, sys
import numpy as np
import tvm_ffi

# calls and errors
@tvm_ffi.register_global_func("peer.add")
def add(a, b):
    if b == 0:
        raise ValueError("no zero")
    return a + b

f = tvm_ffi.get_global_func("peer.add")
assert f(1, 2) == 3
assert f("some longer ", "text") == "some longer text"
try:
    f(1, 0)
except ValueError as error:
    assert str(error) == "no zero"
else:
    raise AssertionError
assert "peer.add" in tvm_ffi.registry.list_global_func_names()
assert f(2**70, 1) == 2**70 + 1

# containers
array = tvm_ffi.Array([1, "a", [2, 3]])
assert list(array[2]) == [2, 3] and len(array) == 3 and str(array) == '(1, "a", (2, 3))'
mapping = tvm_ffi.Map({f"key {i}": i for i in range(40)})
assert mapping["key 37"] == 37 and list(mapping) == [f"key {i}" for i in range(40)]
numbers = tvm_ffi.List([3, 1, 2])
numbers.append(5)
numbers[0:2] = [9]
assert list(numbers) == [9, 2, 5]
table = tvm_ffi.Dict({"x": 1})
table["y"] = 2
del table["x"]
assert dict(table.items()) == {"y": 2}
assert array == tvm_ffi.Array([1, "a", [2, 3]]) and hash(array) == hash(copy.deepcopy(array))
assert tvm_ffi.Shape((1, 2)) == (1, 2)

# tensors, dtypes, devices
tensor = tvm_ffi.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3))
assert tensor.shape == (2, 3) and str(tensor.dtype) == "float32" and str(tensor.device) == "cpu:0"
np.testing.assert_array_equal(np.from_dlpack(tensor), np.arange(6).reshape(2, 3))

# modules
module = tvm_ffi.load_module(sys.argv[1])
out = np.zeros(3, np.float32)
module.scale_add(tvm_ffi.from_dlpack(np.ones(3, np.float32)), tvm_ffi.from_dlpack(out), 2.0)
assert out.tolist() == [3, 3, 3]
try:
    module.scale_add(1)
except TypeError as error:
    assert "scale_add" in str(error) or "arguments" in str(error)
tables = tvm_ffi.load_module(sys.argv[2])
made = tables.make_table(bytes(8))
module.import_module(made)
assert [m.kind for m in module.imports] == ["graphffi_tests_table"]
assert module.get_function("table_at", query_imports=True)(1) == 0

mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libtvm_ffi.so" in line}
print(*mapped)
"""


def test_package_runs_on_the_bundled_runtime(
    package_on_bundled: Path, scale_add_apache: Path, table_module: Path, run: Run
) -> None:
    arguments = (str(scale_add_apache), str(table_module))
    output = run(USE_OF_THE_PACKAGE, *arguments, path=package_on_bundled)
    assert output.split() == [str(BUNDLED.resolve())]


ENUM_OF_PYTHON = """
from tvm_ffi.dataclasses import Enum, EnumState, auto

state = EnumState()
assert list(state.entries) == [] and len(state.indexes) == len(state.attrs) == 0
try:
    class Colour(Enum, type_key="peer.Colour"):
        red = auto()
except RuntimeError as error:
    print(error)
"""


def test_enums_of_python_are_refused_on_the_bundled_runtime(
    package_on_bundled: Path, run: Run
) -> None:
    source = package_on_bundled / "tvm_ffi" / "dataclasses" / "enum.py"
    if not source.exists() or "class EnumState" not in source.read_text():
        pytest.skip("the package has no EnumState")
    assert run(ENUM_OF_PYTHON, path=package_on_bundled).startswith(
        "graphffi: peer.Colour: expected a type that C++ defines, got a class or enum of Python; "
    )


EXCHANGE = """
import numpy as np

def both_ways():
    # functions
    ours = graphffi.Function(lambda x: x + 1)
    theirs = tvm_ffi.convert(lambda x: x * 2)
    call = tvm_ffi.convert(lambda f, x: f(x))
    assert call(ours, 20) == 21 and ours(3) == 4
    assert graphffi.Function(theirs)(4) == 8
    apply = graphffi.Function(lambda f, x: f(x))
    assert apply(theirs, 5) == 10
    # tensors share memory
    array = np.zeros(3, np.float32)
    tensor = tvm_ffi.from_dlpack(array)
    mine = graphffi.from_dlpack(tensor)
    assert mine.data_ptr == array.ctypes.data
    np.from_dlpack(tvm_ffi.from_dlpack(mine))[1] = 5
    assert array.tolist() == [0, 5, 0]
    # modules
    loaded = tvm_ffi.load_module(LIBRARY)
    out = np.empty(3, np.float32)
    graphffi.Function(loaded.scale_add)(array, out, 2.0)
    assert out.tolist() == [1, 11, 1]
    # containers and errors
    assert graphffi.get_global_func("ffi.ArraySize")(tvm_ffi.Array([1, 2])) == 2
    def fail():
        raise KeyError("from graphffi")
    graphffi.register_global_func("exchange.fail", fail)
    try:
        tvm_ffi.get_global_func("exchange.fail")()
    except KeyError as error:
        assert "from graphffi" in str(error)
    else:
        raise AssertionError
    mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libtvm_ffi.so" in line}
    assert len(mapped) == 1, mapped
    print("done")
both_ways()
"""


@pytest.mark.needs("tvm_ffi")
@pytest.mark.parametrize("order", ["import tvm_ffi, graphffi", "import graphffi, tvm_ffi"])
def test_objects_are_exchanged_in_both_orders_of_import(
    scale_add_apache: Path, order: str, run: Run
) -> None:
    assert run(f"{order}\nLIBRARY = {str(scale_add_apache)!r}\n{EXCHANGE}") == "done\n"


@pytest.mark.needs("tvm_ffi")
def test_package_on_the_bundled_runtime_is_joined(
    package_on_bundled: Path, scale_add_apache: Path, run: Run
) -> None:
    code = f"import tvm_ffi, graphffi\nLIBRARY = {str(scale_add_apache)!r}\n{EXCHANGE}"
    assert run(code, path=package_on_bundled) == "done\n"
