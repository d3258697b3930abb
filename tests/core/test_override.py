# SPDX-License-Identifier: Apache-2.0
"""Ops that are defined anew, and kernel libraries that are built anew, in every framework."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import _core
from graphffi._definition.op import get_op
from graphffi.plugin import PackagedLibraries
from tests.core.array_calls import calling, compiled, values


def filling(value: float) -> Callable[[Any, Any], None]:
    """A kernel of which each value makes another."""

    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = value

    return kernel


def define(name: str, kernel: Any, infer: Any = graphffi.like, **options: Any) -> graphffi.Op:
    return graphffi.define_op(
        f"override::{name}", schema="(Tensor x) -> Tensor", kernel=kernel, infer=infer, **options
    )


def wider(x: Any) -> Any:
    return graphffi.like(x, shape=(x.shape[0] + 1,))


def test_a_replaced_op_is_another_one_everywhere(arrays: Any) -> None:
    name = f"everywhere_{arrays.name}"
    op = define(name, filling(1))
    before = compiled(arrays, calling(op))
    x = arrays.make([0, 0])
    assert values(op(x)) == values(before(x)) == [1, 1]
    assert define(name, filling(2), wider, override=True, doc="Fills.") is op
    assert op.__doc__ == "Fills."
    assert values(op(x)) == [2, 2, 2]
    assert values(before(x)) == [2, 2, 2]
    assert values(compiled(arrays, calling(op))(x)) == [2, 2, 2]


def test_a_refused_definition_changes_nothing(arrays: Any) -> None:
    name = f"refused_{arrays.name}"
    op = define(name, filling(1))
    x = arrays.make([0])
    assert values(op(x)) == [1]
    text = "with another kernel code; give it another name, or pass override=True to replace it"
    with pytest.raises(ValueError, match=text):
        define(name, filling(2))
    with pytest.raises(ValueError, match="with another kernel code, shape rule; give it another"):
        define(name, filling(2), wider)
    with pytest.raises(ValueError, match="plan 'nothing': expected a known name"):
        define(name, filling(2), plan="nothing", override=True)
    assert values(op(x)) == [1]
    assert values(compiled(arrays, calling(op))(x)) == [1]


def sized(factors: Any) -> Callable[[Any], Any]:
    """A shape rule whose factors are functions, some of them the same."""
    return lambda x: graphffi.like(x, shape=(x.shape[0] * sum(f() for f in factors),))


def test_rules_differ_that_mention_one_object_twice_or_another_one(arrays: Any) -> None:
    one, two = (lambda: 1), (lambda: 2)
    name = f"twice_{arrays.name}"
    op = define(name, filling(1), sized([one, two, one]))
    assert values(op(arrays.make([0]))) == [1] * 4
    assert define(name, filling(1), sized([one, two, one])) is op
    with pytest.raises(ValueError, match="with another shape rule; give it another name"):
        define(name, filling(1), sized([one, two, two]))
    define(name, filling(1), sized([one, two, two]), override=True)
    assert values(op(arrays.make([0]))) == [1] * 5
    assert values(compiled(arrays, calling(op))(arrays.make([0]))) == [1] * 5


def test_rules_differ_whose_values_no_text_tells() -> None:
    first, second = iter([1]), iter([1])
    op = define("untold", filling(1), lambda x: graphffi.like(x) if first else None)
    assert define("untold", filling(1), lambda x: graphffi.like(x) if first else None) is op
    with pytest.raises(ValueError, match="with another shape rule; give it another name"):
        define("untold", filling(1), lambda x: graphffi.like(x) if second else None)


def test_the_same_definition_again_is_fine() -> None:
    function = graphffi.Function(filling(1))
    assert define("again", filling(1)) is define("again", filling(1))
    assert define("opaque", function) is define("opaque", function)
    with pytest.raises(ValueError, match="with another kernel; give it another name"):
        define("opaque", graphffi.Function(filling(1)))


def counting(calls: list[None]) -> Callable[[Any, Any], None]:
    """A kernel of the same code for each list."""

    def kernel(x: Any, out: Any) -> None:
        calls.append(None)
        np.from_dlpack(out)[...] = 0

    return kernel


def test_a_kernel_of_the_same_code_may_refer_to_other_objects(arrays: Any) -> None:
    name = f"same_code_{arrays.name}"
    first: list[None] = []
    second: list[None] = []
    op = define(name, counting(first))
    x = arrays.make([0])
    assert values(op(x)) == [0]
    first.clear()
    define(name, counting(second), override=True)
    assert values(op(x)) == [0]
    assert (len(first), len(second)) == (0, 1)


class Replaces:
    """An int that replaces an op where it is read."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action

    def __index__(self) -> int:
        self.action()
        return 0


def test_an_op_that_is_replaced_while_a_call_is_bound_binds_it_anew() -> None:
    def difference(x: Any, y: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) - np.from_dlpack(y)

    def define_op(operands: str) -> graphffi.Op:
        # PyTorch has no operator with so many parameters, which would have to stay as it is.
        numbers = ", ".join(f"int n{i}=0" for i in range(64))
        return graphffi.define_op(
            "override::difference",
            schema=f"({operands}, {numbers}) -> Tensor",
            kernel=difference,
            plan="x, y, out",
            infer=lambda x, *_: graphffi.like(x),
            override=True,
        )

    op = define_op("Tensor x, Tensor y")
    number: Any = Replaces(lambda: define_op("Tensor y, Tensor x"))
    assert values(op(x=np.full(1, 5.0), y=np.full(1, 2.0), n0=number)) == [3]


def test_a_call_under_way_runs_the_kernel_that_it_is_for(arrays: Any) -> None:
    name = f"under_way_{arrays.name}"
    actions: list[Callable[[], object]] = []

    def add_one(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) + 1

    def add_two(out: Any, x: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) + 2

    def replacing(x: Any) -> Any:
        if actions:
            actions.pop()()  # as another thread may meanwhile
        return graphffi.like(x)

    op = define(name, add_one, replacing)
    actions.append(lambda: define(name, add_two, plan="out, x", override=True))
    x = arrays.make([5])
    assert values(op(x)) == [6]
    assert values(x) == [5]
    assert values(op(x)) == [7]


def adding(value: float) -> Callable[..., Any]:
    """A reference of which each value makes another."""
    return lambda xp, x: x + value


def test_a_kernel_is_replaced_in_its_place(arrays: Any) -> None:
    op = graphffi.define_op(
        f"override::kernel_{arrays.name}", schema="(Tensor x) -> Tensor", infer=graphffi.like
    )
    op.add_kernel(filling(1), name="first")
    op.add_kernel(filling(2), name="second")
    before = compiled(arrays, calling(op))
    x = arrays.make([0])
    assert values(op(x)) == values(before(x)) == [1]
    with pytest.raises(ValueError, match=r"pass another name=, or override=True to replace it"):
        op.add_kernel(filling(3), name="first")
    op.add_kernel(filling(3), name="first", override=True)
    assert values(op(x)) == values(before(x)) == [3]
    assert [kernel.name for kernel in op.definition.kernels] == ["first", "second"]
    with pytest.raises(ValueError, match="expected a known name, got 'nothing'"):
        op.add_kernel(filling(4), name="first", plan="nothing", override=True)
    assert values(op(x)) == values(before(x)) == [3]
    op.add_kernel(filling(5), name="first", device="cuda", override=True)
    assert values(op(x)) == values(before(x)) == [2]


def test_a_factory_is_replaced(arrays: Any) -> None:
    op = graphffi.define_op(
        f"override::factory_{arrays.name}", schema="(Tensor x) -> Tensor", infer=graphffi.like
    )

    def add(value: float, **options: Any) -> None:
        @op.add_factory(key=lambda x: x.ndim, name="made", plan="x, out", **options)
        def make(ndim: int) -> Any:
            return filling(value)

    add(1)
    before = compiled(arrays, calling(op))
    x = arrays.make([0])
    assert values(op(x)) == values(before(x)) == [1]
    with pytest.raises(ValueError, match=r"another factory; pass another name=, or override=True"):
        add(2)
    add(2, override=True)
    assert values(op(x)) == values(before(x)) == [2]


def test_a_reference_is_replaced(arrays: Any) -> None:
    op = graphffi.define_op(
        f"override::reference_{arrays.name}",
        schema="(Tensor x) -> Tensor",
        infer=graphffi.like,
        fallback="reference",
    )
    op.set_reference(adding(1))
    before = compiled(arrays, calling(op))
    x = arrays.make([0])
    assert values(op(x)) == values(before(x)) == [1]
    with pytest.raises(ValueError, match="got another one; pass override=True to replace it"):
        op.set_reference(adding(2))
    with pytest.raises(TypeError):
        op.set_reference(3, override=True)  # type: ignore[call-overload]
    assert values(op(x)) == values(before(x)) == [1]

    @op.set_reference(override=True)
    def reference(xp: Any, x: Any) -> Any:
        return x + 3

    assert values(op(x)) == values(before(x)) == [3]


def test_a_definition_with_other_side_effects_says_so() -> None:
    schema = "(Tensor x) -> Tensor"
    graphffi.define_op("override::effect", schema=schema, infer=graphffi.like)
    with pytest.raises(ValueError, match="with another has_side_effect; give it another name"):
        graphffi.define_op(
            "override::effect", schema=schema, infer=graphffi.like, has_side_effect=True
        )


def test_override_of_a_new_name_defines_it() -> None:
    assert values(define("new", filling(3), override=True)(np.zeros(1))) == [3]


SOURCE = """
void fill(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {{
  for (int64_t i = 0; i < out.numel(); ++i) static_cast<float*>(out.data_ptr())[i] = {value};
}}
"""


@pytest.fixture(scope="session")
def builds() -> list[str]:
    """Libraries whose kernel fills with 0, 1 and 2."""
    return [
        graphffi.cpp.build(
            f"override_{value}", cpp_sources=SOURCE.format(value=value), functions=["fill"]
        )
        for value in range(3)
    ]


@pytest.fixture
def library(builds: list[str], tmp_path: Path) -> Path:
    return build(builds[1], tmp_path.resolve() / "kernels.so")


def build(source: str, path: Path) -> Path:
    """Puts a new file in the place of an old one, as linkers do."""
    shutil.copy(source, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    return path


def test_an_op_of_a_rebuilt_library_is_replaced_by_name(
    arrays: Any, builds: list[str], library: Path
) -> None:
    name, reference = f"rebuilt_{arrays.name}", f"{library}::fill"
    op = define(name, reference)
    before = compiled(arrays, calling(op))
    x = arrays.make([0])
    assert values(op(x)) == values(before(x)) == [1]
    build(builds[2], library)
    with pytest.raises(ValueError, match="with another kernel library; give it another name, or"):
        define(name, reference)
    assert values(op(x)) == values(before(x)) == [1]
    define(name, reference, override=True)
    assert values(op(x)) == values(before(x)) == [2]
    assert values(graphffi.call_tvm_ffi(reference, x, out=graphffi.like(x))) == [2]


def test_another_op_does_not_replace_the_kernels_of_a_rebuilt_library(
    arrays: Any, builds: list[str], library: Path
) -> None:
    name, reference = f"first_{arrays.name}", f"{library}::fill"
    op, other = define(name, reference), define(f"other_{arrays.name}", filling(7))
    x = arrays.make([0])
    assert values(op(x)) == [1]
    build(builds[2], library)
    refused = "expected the file in use, got a newer one; load it with graphffi.load_module, or"
    with pytest.raises(RuntimeError, match=f"second_{arrays.name}: cannot load .*{refused}"):
        define(f"second_{arrays.name}", reference)
    with pytest.raises(RuntimeError, match=f"other_{arrays.name}: cannot load .*{refused}"):
        other.add_kernel(reference, name="more")
    assert values(op(x)) == [1]
    assert values(other(x)) == [7]
    assert values(define(f"second_{arrays.name}", reference, override=True)(x)) == [2]
    assert values(op(x)) == [2]


def test_a_rebuilt_library_that_is_loaded_replaces_the_kernels_of_its_ops(
    arrays: Any, builds: list[str], library: Path
) -> None:
    module = graphffi.load_module(library)
    op = define(f"loaded_{arrays.name}", module.fill)
    before = compiled(arrays, calling(op))
    x = arrays.make([0])
    direct = graphffi.call_tvm_ffi(f"{library}::fill", x, out=graphffi.like(x))
    assert values(op(x)) == values(before(x)) == values(direct) == [1]
    digest = op.definition.digest
    for value in (2, 0):
        build(builds[value], library)
        renewed = graphffi.load_module(library)
        assert renewed is not module
        assert op.definition.digest != digest
        assert define(f"loaded_{arrays.name}", renewed.fill) is op
        assert values(op(x)) == values(before(x)) == [value]
        direct = graphffi.call_tvm_ffi(f"{library}::fill", x, out=graphffi.like(x))
        assert values(direct) == [value]
    out = np.zeros(1, np.float32)
    module.fill(out, out)
    assert out[0] == 1


def test_what_was_not_defined_with_a_file_does_not_run_it(builds: list[str], library: Path) -> None:
    op = define("late", f"{library}::fill")
    build(builds[2], library)
    text = r"cannot load '.*kernels.so': expected the file in use, got a newer one"
    with pytest.raises(RuntimeError, match=text):
        op(np.zeros(1, np.float32))
    define("late", f"{library}::fill", override=True)
    assert values(op(np.zeros(1, np.float32))) == [2]


def test_a_name_without_a_folder_means_one_file(
    builds: list[str], library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs hold the name alone: a new file would be silently the old one."""
    name = f"{tmp_path.name}_named.so"
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, code in zip(folders, builds, strict=False):
        folder.mkdir()
        build(code, folder / name)
    path = ":".join(map(str, folders))
    monkeypatch.setenv("GRAPHFFI_LIBRARY_PATH", path)
    op = define("named", f"{name}::fill")
    x = np.zeros(1, np.float32)
    before = values(op(x))
    assert values(define("named", f"{name}::fill", override=True)(x)) == before
    in_use = rf"expected '{folders[0]}/{name}' as it was when an op named it '{name}', got another"
    monkeypatch.setenv("GRAPHFFI_LIBRARY_PATH", str(folders[1]))
    for override in (False, True):
        with pytest.raises(RuntimeError, match=in_use):
            define("named", f"{name}::fill", override=override)
    monkeypatch.setenv("GRAPHFFI_LIBRARY_PATH", path)
    build(builds[2], folders[0] / name)
    for run in (
        lambda: define("named", f"{name}::fill", override=True),
        lambda: graphffi.load_module(folders[0] / name),
        lambda: define("absolute", f"{folders[0]}/{name}::fill"),
    ):
        with pytest.raises(RuntimeError, match=in_use):
            run()
    assert values(op(x)) == before


def test_a_library_that_was_changed_in_place_is_refused(builds: list[str], library: Path) -> None:
    graphffi.load_module(library)
    with open(library, "ab") as file:
        file.write(b"\0")
    with pytest.raises(RuntimeError, match="expected a new file, got one that was changed in pla"):
        graphffi.load_module(library)
    with pytest.raises(RuntimeError, match="expected the file in use, got a newer one; load it"):
        define("in_place", f"{library}::fill")
    with pytest.raises(RuntimeError, match="got one that was changed in place while it is in use"):
        define("in_place", f"{library}::fill", override=True)
    with pytest.raises(KeyError, match="override::in_place"):
        get_op("override::in_place")


def test_a_package_holds_the_library_that_runs(builds: list[str], library: Path) -> None:
    reference = f"{library}::fill"
    _core.resolve_kernel(reference)
    packaged = PackagedLibraries("test").add(reference)
    build(builds[2], library)
    text = "test: cannot load '.*': expected the file in use, got a newer one"
    with pytest.raises(RuntimeError, match=text):
        PackagedLibraries("test").add(reference)
    graphffi.load_module(library)
    again = PackagedLibraries("test").add(reference)
    assert re.fullmatch(r"kernels-[0-9a-f]{16}.so::fill", again)
    assert again != packaged


REPLACED = """
import gc, weakref
import numpy as np
import graphffi

class Table:
    def __init__(self, value):
        self.value = value

def define(value):
    table = Table(value)

    def fill(x, out):
        np.from_dlpack(out)[...] = table.value

    op = graphffi.define_op(
        "replaced::op", schema="(Tensor x) -> Tensor", kernel=fill, infer=graphffi.like,
        override=True,
    )
    assert op(np.zeros(1)) == [value]
    return weakref.ref(table)

tables = [define(value) for value in range(3)]
gc.collect()
print([table() is not None for table in tables])
"""


def test_a_replaced_kernel_keeps_nothing(run_python: Any) -> None:
    assert run_python(REPLACED) == (0, "[False, False, True]\n")


def multiplying(factor: float) -> Callable[[Any, Any], None]:
    def kernel(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * factor

    return kernel


def test_a_program_goes_on_with_the_kernel_that_it_was_made_with(arrays: Any) -> None:
    name = f"mid_run_{arrays.name}"
    op = define(name, multiplying(2))
    todo = [lambda: define(name, multiplying(10), override=True)]

    def replace(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x)
        if todo:
            todo.pop()()

    replacing = define(f"replacing_mid_run_{arrays.name}", replace)
    chain = compiled(arrays, lambda x: op(replacing(op(replacing(op(x))))))
    x = arrays.make([1])
    in_a_program = arrays.name in ("torch", "jax")
    assert values(chain(x)) == [8 if in_a_program else 2 * 10 * 10]
    assert values(chain(x)) == [1000]
    assert values(op(x)) == [10]
