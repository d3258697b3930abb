# SPDX-License-Identifier: Apache-2.0
"""Global functions about values: texts, copies, comparison; the same on both runtimes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphffi

ON_BUNDLED = graphffi.runtime_info().kind == "bundled"


def call(name: str, *arguments: Any) -> Any:
    return graphffi.get_global_func(f"ffi.{name}")(*arguments)


def test_values_have_texts() -> None:
    tensor = graphffi.from_dlpack(np.zeros((2, 3), np.float32))
    texts = {
        "None": None,
        "True": True,
        "1.5": 1.5,
        '"a\\n"': "a\n",
        'b"\\x00"': b"\x00",
        '(1, "a")': [1, "a"],
        '{"k": (1, 2)}': {"k": [1, 2]},
        "Shape(1, 2)": call("Shape", 1, 2),
        "float32[2, 3]@cpu:0": tensor,
        "cuda:1": graphffi.Device("cuda:1"),
        "ffi.Function": len,
    }
    assert [call("ReprPrint", value) for value in texts.values()] == list(texts)


EQUAL = [(1, 1), ("text", "text"), ("long " * 9, "long " * 9), ([1, [2]], [1, [2]]), (None, None)]
EQUAL += [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (math.nan, math.nan), (b"x", b"x")]
UNEQUAL = [(1, 1.0), (1, True), ("a", b"a"), ([1], [1, 2]), ({"a": 1}, {"a": 2}), ([1], {})]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_values(a: Any, b: Any) -> None:
    assert call("RecursiveEq", a, b)
    assert call("RecursiveHash", a) == call("RecursiveHash", b)


@pytest.mark.parametrize(("a", "b"), UNEQUAL)
def test_unequal_values(a: Any, b: Any) -> None:
    assert not call("RecursiveEq", a, b)


def test_objects_without_fields_are_equal() -> None:
    """As with apache-tvm-ffi: types are what their fields are."""
    tensors = (graphffi.from_dlpack(np.zeros(n)) for n in (2, 3))
    functions = (graphffi.get_global_func(f"ffi.{name}") for name in ("Array", "Map"))
    for a, b in (tuple(tensors), tuple(functions)):
        assert call("RecursiveEq", a, b)
        assert not call("RecursiveLt", a, b)
        assert call("RecursiveHash", a) == call("RecursiveHash", b)


def test_zeros_of_both_signs_are_equal() -> None:
    assert call("RecursiveEq", 0.0, -0.0)
    assert call("RecursiveHash", 0.0) == call("RecursiveHash", -0.0)


def test_order_of_values() -> None:
    for ordered in ([1, 2], ["a", "b"], [[1], [1, 2]], [[1, 9], [2]], [None, 1], [1.5, 2.5]):
        a, b = ordered
        results = [call(f"Recursive{name}", a, b) for name in ("Lt", "Le", "Gt", "Ge")]
        assert results == [True, True, False, False], ordered
        assert call("RecursiveLe", a, a)
        assert call("RecursiveGe", a, a)
    with pytest.raises(TypeError, match=r"Cannot compare values of different types: int vs float"):
        call("RecursiveLt", 1, 1.5)
    with pytest.raises(TypeError, match=r"Cannot order NaN values"):
        call("RecursiveLt", math.nan, 1.5)


def test_copies_are_equal_and_others() -> None:
    for value in (1, "text", [1, ["a"]], {"k": [1, {"j": None}]}):
        assert call("DeepCopy", value) == value
    with pytest.raises(RuntimeError, match=r"copy-constructible"):
        call("DeepCopy", [len])


def test_first_device_of_a_container_is_found() -> None:
    tensor = graphffi.from_dlpack(np.zeros(1))
    for value in (1, tensor, [tensor, {"k": [tensor]}]):
        assert call("ContainerFindFirstNonCPUDevice", value) == graphffi.Device("cpu")


@pytest.mark.skipif(not ON_BUNDLED, reason="apache's ends the process")
def test_nesting_has_a_limit() -> None:
    levels = range(200_000)  # Python 3.14 measures the stack: 60,000 fit in 8 MB
    deep: Any = list(itertools.accumulate(levels, lambda inner, _: [inner], initial=0))[-1]
    for name, *rest in (("ReprPrint",), ("DeepCopy",), ("RecursiveEq", deep), ("RecursiveHash",)):
        with pytest.raises(RecursionError, match=r"recursion|Stack overflow"):
            call(name, deep, *rest)


def test_modules_are_kept_and_forgotten(kernels: Any) -> None:
    call("ModuleGlobalsAdd", kernels)
    call("ModuleGlobalsAdd", kernels)
    call("ModuleGlobalsRemove", kernels)


def test_a_list_in_itself_is_an_error(kernels: Any) -> None:
    with pytest.raises(RecursionError, match="while a result was converted"):
        kernels.give_list_in_itself()


def test_a_list_that_grows_while_it_is_converted_is_what_it_was(kernels: Any) -> None:
    @graphffi.register_error
    class GrowingError(Exception):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kernels.grow_list(100_000)

    kernels.fill_list("GrowingError")
    error, *rest = kernels.give_list()
    assert type(error) is GrowingError
    assert rest == [1, 2]
    assert len(kernels.give_list()) == 100_003


def test_maps_have_tuples_as_keys_for_arrays(kernels: Any) -> None:
    assert kernels.give_map((1, (2, "a"))) == {(1, (2, "a")): 1}
