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


CLASSES_OF_PYTHON = """
import copy
from typing import Any, List, Optional
import tvm_ffi
from tvm_ffi.dataclasses import Enum, EnumState, IntEnum, auto, field, py_class

call = tvm_ffi.get_global_func

@py_class("peer.Leaf")
class Leaf(tvm_ffi.Object):
    number: int
    ratio: float = 0.5
    name: str = field(default="a name that is long")
    flag: bool = True
    content: Any = None
    items: List[int] = field(default_factory=list)

@py_class("peer.Node")
class Node(Leaf):
    leaf: Optional[Leaf] = None

leaf = Leaf(1, name="leaf", content=[1, "two"], items=[3])
node = Node(2, content={"key": leaf}, leaf=leaf)
assert (leaf.number, leaf.ratio, leaf.flag) == (1, 0.5, True) and list(leaf.items) == [3]
assert node.name == "a name that is long" and node.leaf.same_as(leaf)
node.number, node.content = 5, "other"
assert node.number == 5 and node.content == "other"
assert repr(Leaf(7)).startswith("peer.Leaf(number=7, ratio=0.5")

# mistakes name the field
for arguments in ({"number": "x"}, {"number": 1, "items": [1, None]}):
    try:
        Leaf(**arguments)
    except TypeError as error:
        assert f"peer.Leaf.__ffi_init__() field '{list(arguments)[-1]}':" in str(error), error
    else:
        raise AssertionError
try:
    leaf.number = "text"
except TypeError:
    assert leaf.number == 1

# values: equality, hashes, copies, JSON
assert call("ffi.RecursiveEq")(Leaf(1), Leaf(1)) and not call("ffi.RecursiveEq")(Leaf(1), Leaf(2))
assert call("ffi.RecursiveHash")(Leaf(1)) == call("ffi.RecursiveHash")(Leaf(1))
shallow, deep = copy.copy(node), copy.deepcopy(node)
assert shallow.leaf.same_as(node.leaf) and not deep.leaf.same_as(node.leaf)
assert call("ffi.RecursiveEq")(deep, node)
text = call("ffi.ToJSONGraphString")(node, None)
again = call("ffi.FromJSONGraphString")(text)
assert type(again) is Node and call("ffi.RecursiveEq")(again, node)
ring = tvm_ffi.Array([Leaf(1)])
ring[0].content = ring
copied = copy.deepcopy(ring)
assert copied[0].content.same_as(copied) and not copied.same_as(ring)

# enums
class Colour(Enum, type_key="peer.Colour"):
    red = auto()
    green = auto()
class Level(IntEnum, type_key="peer.Level"):
    high = 20
assert repr(Colour.red) == "peer.Colour.red" and not Colour.red.same_as(Colour.green)
assert copy.deepcopy(Colour.red).same_as(Colour.red) and Level.high.value == 20
assert list(EnumState().entries) == []
print("done")
"""


def test_classes_and_enums_of_python_run_on_the_bundled_runtime(
    package_on_bundled: Path, run: Run
) -> None:
    source = package_on_bundled / "tvm_ffi" / "dataclasses" / "enum.py"
    if not source.exists() or "class EnumState" not in source.read_text():
        pytest.skip("the package has no EnumState")
    # Annotations are read from the source, which a file has.
    program = package_on_bundled / "classes_of_python.py"
    program.write_text(CLASSES_OF_PYTHON)
    assert run("import classes_of_python", path=package_on_bundled) == "done\n"


MOVED = """
import tvm_ffi

root = tvm_ffi.Array([1])
handle = root.__chandle__()
mapped = tvm_ffi.structural_map(root._move(), (int, lambda value: value + 1))
assert list(mapped) == [2] and mapped.__chandle__() == handle
seen = []
tvm_ffi.structural_walk(mapped._move(), (int, lambda value: seen.append(value)))
assert seen == [2]
print("done")
"""


def test_values_that_are_moved_into_a_visit_are_visited(package_on_bundled: Path, run: Run) -> None:
    if not (package_on_bundled / "tvm_ffi" / "structural.py").exists():
        pytest.skip("the package has no structural_map")
    assert run(MOVED, path=package_on_bundled) == "done\n"


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
