# SPDX-License-Identifier: Apache-2.0
"""Libraries of kernels, global functions, kernel references and calls by plan."""

from __future__ import annotations

import copy
import re
import weakref
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import _core


def test_functions_by_attribute_item_and_name(kernels: Any) -> None:
    assert [f(1) for f in (kernels.echo, kernels["echo"], kernels.get_function("echo"))] == [1] * 3
    assert kernels.echo is kernels.echo
    assert kernels.echo.name == kernels.echo.__name__ == "echo"
    assert repr(kernels.echo) == "<graphffi.Function echo>"
    assert kernels.echo(1) == 1


def test_function_knows_its_reference(kernels: Any, kernels_path: str) -> None:
    assert kernels.echo.reference == f"{kernels_path}::echo"
    assert _core.resolve_kernel(kernels.echo.reference)(7) == 7
    assert _core.resolve_kernel(kernels.echo.reference).reference == kernels.echo.reference
    assert graphffi.get_global_func("ffi.Array").reference == "ffi.Array"
    assert graphffi.Function(len).reference is None


def test_function_knows_its_documentation(kernels: Any) -> None:
    assert kernels.add_one.doc == "Adds 1."
    assert kernels.echo.doc is None


def test_metadata_has_the_type(kernels: Any) -> None:
    metadata = kernels.get_function_metadata("sum")
    assert metadata["type_schema"]["type"] == "ffi.Function"
    assert kernels.get_function_metadata("count") is None


def test_module_describes_itself(kernels: Any, kernels_path: str) -> None:
    assert kernels.kind == "library"
    assert kernels.path == kernels_path
    assert kernels.imports == []
    assert kernels.implements_function("echo") is True
    assert kernels.implements_function("nope") is False
    assert {"echo", "count", "raise"} <= set(kernels.function_names())
    assert repr(kernels) == f"<graphffi.Module {kernels_path!r}>"
    assert kernels.type_key == "ffi.Module"


def test_missing_function_lists_near_names(kernels: Any) -> None:
    with pytest.raises(
        AttributeError, match=r"expected the name of a function, got 'ecko'; near: "
    ):
        kernels.ecko  # noqa: B018
    with pytest.raises(KeyError, match=r"'ecko'; near: .*echo"):
        kernels["ecko"]
    with pytest.raises(AttributeError, match=r"got 'ecko'"):
        kernels.get_function("ecko", query_imports=True)


def test_probing_a_module_does_no_harm(kernels: Any) -> None:
    assert not hasattr(kernels, "__wrapped__")
    assert not hasattr(kernels, "nope")
    copy.copy(kernels.echo.name)


def test_module_is_an_argument_and_a_result(kernels: Any) -> None:
    result = kernels.echo(kernels)
    assert isinstance(result, graphffi.Module)
    assert result == kernels
    assert result.echo(1) == 1


def test_missing_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.so"
    text = f"graphffi: cannot load {str(path)!r}: expected a file, got none"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        graphffi.load_module(path)


def test_broken_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_text("no library")
    with pytest.raises(RuntimeError, match=r"cannot load '.*broken\.so': .*(invalid|short)"):
        graphffi.load_module(path)


def test_library_with_an_undefined_symbol_is_refused(tmp_path: Path) -> None:
    path = graphffi.cpp.build(
        "undefined",
        cpp_sources="extern int missing_symbol(int); int f(int x) { return missing_symbol(x); }",
        functions="f",
        build_directory=tmp_path,
    )
    with pytest.raises(RuntimeError, match=r"cannot load .*undefined symbol: .*missing_symbol"):
        graphffi.load_module(path)


def test_objects_cannot_be_made_directly() -> None:
    for kind in (graphffi.Module, graphffi.Tensor, graphffi.Object):
        with pytest.raises(TypeError, match=r"expected to be made by the runtime"):
            kind()


def test_objects_have_weak_references_and_hashes(kernels: Any) -> None:
    function = kernels.get_function("echo")
    assert weakref.ref(function)() is function
    assert len({function, kernels.get_function("echo")}) in (1, 2)
    assert hash(kernels) == hash(kernels.echo(kernels))
    assert kernels != kernels.echo
    assert function != "echo"
    assert function.__chandle__() != 0


def test_methods_check_their_object() -> None:
    with pytest.raises(TypeError, match=r"expected a graphffi.Tensor, got int"):
        graphffi.Tensor.shape.fget(3)
    with pytest.raises(TypeError, match=r"expected a graphffi.Tensor, got graphffi.Function"):
        graphffi.Tensor.__dlpack__(graphffi.Function(len))


def test_global_function_by_call_and_decorator() -> None:
    assert graphffi.register_global_func("core_tests.f", len) is len

    @graphffi.register_global_func("core_tests.g")
    def g(x: int) -> int:
        return x + 1

    assert g(1) == 2
    assert graphffi.get_global_func("core_tests.f")("text") == 4
    assert graphffi.get_global_func("core_tests.g")(1) == 2
    assert "core_tests.g" in graphffi.list_global_func_names()


def test_global_name_is_taken_once() -> None:
    graphffi.register_global_func("core_tests.once", len)
    with pytest.raises(RuntimeError, match=r"core_tests.once"):
        graphffi.register_global_func("core_tests.once", max)
    graphffi.register_global_func("core_tests.once", max, override=True)
    assert graphffi.get_global_func("core_tests.once")(1, 2) == 2


def test_global_function_is_removed() -> None:
    graphffi.register_global_func("core_tests.gone", len)
    held = graphffi.get_global_func("core_tests.gone")
    graphffi.remove_global_func("core_tests.gone")
    assert graphffi.get_global_func("core_tests.gone", allow_missing=True) is None
    assert held("abc") == 3
    with pytest.raises(KeyError, match=r"core_tests.gone"):
        graphffi.remove_global_func("core_tests.gone")


def test_missing_global_function_lists_near_names() -> None:
    with pytest.raises(KeyError, match=r"unknown name 'ffi.Aray'; near: ffi.Array"):
        graphffi.get_global_func("ffi.Aray")


def test_only_callables_are_registered() -> None:
    with pytest.raises(TypeError, match=r"expected a callable, got int"):
        graphffi.register_global_func("core_tests.int", 3)  # type: ignore[arg-type]


def test_a_function_is_registered_under_a_name() -> None:
    with pytest.raises(TypeError, match="register_global_func: name: expected a str, got function"):

        @graphffi.register_global_func  # type: ignore[call-overload]
        def function() -> None: ...

    with pytest.raises(TypeError, match="get_global_func: name: expected a str, got int 3"):
        graphffi.get_global_func(3)  # type: ignore[call-overload]


def test_unknown_reference_is_refused() -> None:
    with pytest.raises(KeyError, match=r"core_tests.none"):
        _core.resolve_kernel("core_tests.none")
    with pytest.raises(RuntimeError, match=r"nowhere\.so"):
        _core.resolve_kernel("/nowhere.so::f")


def call_plan(function: graphffi.Function, plan: str, **banks: list[Any]) -> Any:
    names = ("inputs", "outputs", "ints", "floats", "strs")
    return _core.call_plan(function, plan, *(banks.get(name, []) for name in names), "test::op")


def test_plan_orders_the_arguments(kernels: Any, arrays: Any) -> None:
    x, y = arrays.make([1, 2]), arrays.make([0, 0])
    call_plan(kernels.add_one, "", inputs=[x], outputs=[y])
    assert y.tolist() == [2, 3]
    call_plan(kernels.add_one, "o0, i0", inputs=[x], outputs=[y])
    assert x.tolist() == [3, 4]


def test_plan_has_attributes_constants_and_lists(kernels: Any) -> None:
    collect = graphffi.get_global_func("ffi.Array")
    plan = 's0, n0, (f0, true, (None)), dtype(s1), device(s2), bool(n1), "text", 1.5'
    result = call_plan(
        collect, plan, ints=[4, 0], floats=[0.5], strs=["name", "bfloat16", "cuda:1"]
    )
    expected = [graphffi.dtype("bfloat16"), graphffi.Device("cuda:1"), False, "text", 1.5]
    assert result == ["name", 4, [0.5, True, [None]], *expected]


def test_plan_names_lists_of_tensors(kernels: Any, arrays: Any) -> None:
    x = arrays.make([1, 2])
    assert call_plan(kernels.count_tensors, "(i0, i1, i0)", inputs=[x, x]) == 3


def test_plan_passes_none_for_a_missing_operand(kernels: Any) -> None:
    assert call_plan(kernels.echo, "", inputs=[None]) is None


def test_bad_plan_is_refused_with_its_op(kernels: Any) -> None:
    with pytest.raises(ValueError, match=r"test::op: .*i1"):
        call_plan(kernels.echo, "i1", inputs=[None])


def test_bad_operand_of_a_plan_is_refused_by_name(kernels: Any) -> None:
    with pytest.raises(TypeError, match=r"test::op: input i1: expected .*, got set"):
        call_plan(kernels.count, "", inputs=[None, set()])
    with pytest.raises(OverflowError, match=r"test::op: attribute n0: expected an int of 64 bits"):
        call_plan(kernels.echo, "n0", ints=[2**64])


def test_plan_needs_a_function() -> None:
    with pytest.raises(TypeError, match=r"expected a graphffi.Function, got builtin"):
        call_plan(len, "")  # type: ignore[arg-type]
