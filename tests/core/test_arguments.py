# SPDX-License-Identifier: Apache-2.0
"""What Python values become for a kernel, and what is refused."""

from __future__ import annotations

import ctypes
import enum
import json
from decimal import Decimal
from typing import Any

import pytest

import graphffi


class Color(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        0.5,
        float("inf"),
        "",
        "seven77",
        "eight888",
        "x" * 4096,
        "ünï\x00code",
        b"",
        b"\x00\xff",
        b"x" * 4096,
        [],
        [1, [2, ["three", None]]],
        {},
        {"a": 1, "b": [2.5]},
        {str(i): i for i in range(100)},
        list(range(17)),
    ],
)
def test_value_comes_back_as_it_was(kernels: graphffi.Module, value: Any) -> None:
    result = kernels.echo(value)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Color.RED, 3),
        (bytearray(b"bytes"), b"bytes"),
        ((1, "two"), [1, "two"]),
        (Decimal("0.5"), 0.5),
        (graphffi.dtype("bfloat16"), graphffi.dtype("bfloat16")),
        (graphffi.Device("cuda:1"), graphffi.Device("cuda:1")),
        (graphffi.Shape([2, 3]), (2, 3)),
    ],
)
def test_value_becomes_the_nearest_one(kernels: graphffi.Module, value: Any, expected: Any) -> None:
    assert kernels.echo(value) == expected


def test_dtype_is_no_string(kernels: graphffi.Module) -> None:
    assert kernels.type_index(graphffi.dtype("float32")) == 5
    assert kernels.type_index("float32") == 11


def test_pointers_pass(kernels: graphffi.Module) -> None:
    assert kernels.echo(ctypes.c_void_p(0x1234)).value == 0x1234
    assert kernels.echo(ctypes.c_void_p(None)).value is None


def test_numpy_scalars_and_dtypes_pass(kernels: graphffi.Module) -> None:
    np = pytest.importorskip("numpy")
    assert kernels.echo(np.int8(-3)) == -3
    assert kernels.echo(np.uint64(7)) == 7
    assert kernels.echo(np.float32(0.5)) == 0.5
    assert kernels.echo(np.float64(0.25)) == 0.25
    assert kernels.echo(np.bool_(True)) is True
    assert kernels.echo(np.dtype("float16")) == graphffi.dtype("float16")
    assert kernels.echo(np.float16) == graphffi.dtype("float16")
    assert kernels.echo(np.str_("text")) == "text"


def test_torch_dtypes_and_devices_pass(kernels: graphffi.Module) -> None:
    torch = pytest.importorskip("torch")
    assert kernels.echo(torch.bfloat16) == graphffi.dtype("bfloat16")
    assert kernels.echo(torch.device("cuda", 1)) == graphffi.Device("cuda:1")
    assert kernels.echo(torch.Size([2, 3])) == [2, 3]


def test_jax_dtypes_pass(kernels: graphffi.Module) -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert kernels.echo(jnp.dtype("bfloat16")) == graphffi.dtype("bfloat16")


BEYOND_64_BITS = [2**63, -(2**63) - 1, 2**64, -(2**127), 2**127, 2**200, -(2**1000) + 1]


@pytest.mark.parametrize("value", BEYOND_64_BITS)
def test_int_beyond_64_bits_passes(kernels: graphffi.Module, value: int) -> None:
    assert kernels.echo(value) == value
    assert kernels.echo([value, {"k": value}]) == [value, {"k": value}]


def test_int_beyond_64_bits_is_no_int64(kernels: graphffi.Module) -> None:
    with pytest.raises(TypeError, match=r"(?s)argument #0.*[Ee]xpected `int`.*ffi\.BigInt"):
        kernels.stream(2**63, 0)


def test_callback_returns_ints_beyond_64_bits() -> None:
    assert graphffi.Function(lambda x: 3 * x)(2**63) == 3 * 2**63


@pytest.mark.parametrize("items", [[["key", 1]], [(1,)], [3]])
def test_maps_whose_items_are_no_pairs_are_refused(
    kernels: graphffi.Module, items: list[Any]
) -> None:
    returned = graphffi.get_global_func("ffi.Map")(0, "int", 0.0, "float")

    class Odd(type(returned)):  # type: ignore[misc]
        def items(self) -> list[Any]:
            return items

    with pytest.raises(TypeError, match=r"argument #0: expected a mapping whose items are pairs"):
        kernels.echo(Odd(()))


@pytest.mark.parametrize("count", [3, 40])
def test_keys_that_are_equal_in_python_stay_apart(kernels: graphffi.Module, count: int) -> None:
    make = graphffi.get_global_func("ffi.Map")
    others = {f"k{i}": i for i in range(count - 3)}
    flat = [part for pair in others.items() for part in pair]
    returned = make(0, "int", 0.0, "float", False, "bool", *flat)
    assert len(returned) == count
    assert [type(key) for key in returned][:3] == [int, float, bool]
    assert [returned[0], returned[0.0], returned[False]] == ["int", "float", "bool"]
    assert repr(returned).startswith("Map({0: 'int', 0.0: 'float', False: 'bool'")
    again = kernels.echo(returned)
    assert list(again.items()) == list(returned.items())
    assert {key: returned[key] for key in others} == others
    with pytest.raises(KeyError, match="nope"):
        returned["nope"]


def test_maps_of_other_keys_are_dicts(kernels: graphffi.Module) -> None:
    assert type(kernels.echo({1: "a", 2.5: "b", False: "c", None: "d"})) is dict


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, range(3), memoryview(b"x")])
def test_unknown_type_is_refused_by_position_and_name(kernels: graphffi.Module, value: Any) -> None:
    text = rf"count: argument #1: expected None, a number, .*, got {type(value).__name__}"
    with pytest.raises(TypeError, match=text):
        kernels.count(1, value)


def test_unknown_type_in_a_list_is_refused(kernels: graphffi.Module) -> None:
    with pytest.raises(TypeError, match=r"echo: argument #0: expected .*, got set"):
        kernels.echo([1, [set()]])


def test_list_that_contains_itself_is_refused(kernels: graphffi.Module) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        kernels.echo(endless)


def test_lone_surrogate_is_refused(kernels: graphffi.Module) -> None:
    text = r"echo: argument #1: expected Unicode text, got str '\\ud800'$"
    for value in ("\ud800", ["\ud800"], {"\ud800": 1}):
        with pytest.raises(ValueError, match=text):
            kernels.echo(1, value)
    with pytest.raises(
        ValueError, match=r"speak: result: expected Unicode text, got str 'a{56}\.{3}"
    ):
        graphffi.Function(speak)()


def speak() -> str:
    """A kernel that returns no Unicode text."""
    return "a" * 1000 + "\ud800"


def test_keywords_are_refused(kernels: graphffi.Module) -> None:
    with pytest.raises(
        TypeError, match=r"echo: expected positional arguments only, got the keyword 'v"
    ):
        kernels.echo(value=1)


NAMED = r"""
#define NAMED(name, text)                                                                         \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void*, const TVMFFIAny* args, int32_t count, \
                                                     TVMFFIAny* result) {                         \
    result->type_index = kTVMFFIFloat;                                                            \
    result->v_float64 = count == 2 ? args[0].v_float64 - args[1].v_float64 : count;               \
    return 0;                                                                                     \
  }                                                                                               \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__metadata_##name(                                   \
      void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {                                      \
    TVMFFIByteArray bytes = {text, sizeof(text) - 1};                                             \
    return TVMFFIStringFromByteArray(&bytes, result);                                             \
  }
NAMED(subtract, "{\"parameters\": [\"a\", \"function\"]}")
NAMED(nothing, "{\"parameters\": []}")
NAMED(number, "{\"parameters\": 3}")
NAMED(numbers, "{\"parameters\": [1, 2]}")
NAMED(broken, "{\"parameters\": [")
NAMED(listed, "[1]")
"""


@pytest.fixture(scope="module")
def named() -> graphffi.Module:
    return graphffi.cpp.load_inline("named_parameters", cpp_sources=NAMED)


def test_arguments_have_the_names_that_a_library_exports(named: graphffi.Module) -> None:
    for function in (named.subtract, named["subtract"]):
        assert function(function=2.0, a=5.0) == function(5.0, function=2.0) == 3
    assert named.nothing(**{}) == 0
    assert json.loads(named.subtract.metadata or "") == {"parameters": ["a", "function"]}


@pytest.mark.parametrize(
    ("name", "args", "keywords", "text"),
    [
        ("subtract", (1.0,), {"a": 2.0}, "subtract: argument 'a': expected one value, got two; a"),
        (
            "subtract",
            (),
            {"b": 2.0, "a": 1.0},
            "subtract: argument 'b': expected a known name; argument 'function': expected a value, "
            "got nothing; parameters: a, function; given: b, a",
        ),
        (
            "subtract",
            (1.0, 2.0, 3.0),
            {"c": 1},
            "subtract: expected at most 2 arguments, got 3; argument 'c': expected a known name; "
            "parameters: a, function; given: 3 by position, c",
        ),
        ("nothing", (), {"a": 1}, "'a': expected a known name; parameters: none; given: a"),
        *(
            (name, (), {"a": 1}, "expected positional arguments only, got the keyword 'a'; no meta")
            for name in ("number", "numbers", "broken", "listed")
        ),
    ],
)
def test_wrong_names_of_arguments_are_refused(
    named: graphffi.Module, name: str, args: Any, keywords: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        named[name](*args, **keywords)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100])
def test_any_number_of_arguments_passes(kernels: graphffi.Module, count: int) -> None:
    assert kernels.count(*range(count)) == count


def test_many_owned_arguments_pass(kernels: graphffi.Module) -> None:
    assert kernels.count(*["a long string"] * 40) == 40


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_wrong_count_is_a_type_error(kernels: graphffi.Module, arguments: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=rf"xpected 1 but got {len(arguments)}"):
        kernels.echo(*arguments)


def test_wrong_kind_is_a_type_error(kernels: graphffi.Module) -> None:
    with pytest.raises(TypeError, match=r"argument #0"):
        kernels.sum("text")


def test_an_attribute_that_raises_propagates(kernels: graphffi.Module) -> None:
    class Odd:
        def __index__(self) -> int:
            raise LookupError("no index today")

    with pytest.raises(LookupError, match=r"no index today"):
        kernels.echo(Odd())


def test_classes_may_come_and_go(kernels: graphffi.Module) -> None:
    for expected in range(200):
        cls = type("Passing", (), {"__index__": lambda self, n=expected: n})
        assert kernels.echo(cls()) == expected


def test_objects_of_tvm_ffi_pass(kernels: graphffi.Module) -> None:
    if graphffi.runtime_info().kind == "bundled":
        pytest.skip("tvm_ffi can't be imported on the bundled runtime")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    np = pytest.importorskip("numpy")
    tensor = tvm_ffi.from_dlpack(np.ones(3, "float32"))
    assert kernels.sum(tensor) == 3
    assert graphffi.from_dlpack(tensor).shape == (3,)
    function = tvm_ffi.get_global_func("ffi.Array")
    assert kernels.call(function, 1) == [1]
    assert graphffi.Function(function)(1, 2) == [1, 2]
    assert kernels.type_index(tvm_ffi.dtype("float32x2")) == 5
    assert kernels.echo(tvm_ffi.dtype("float32x2")) == graphffi.dtype("float32x2")
    derived = type("Derived", (tvm_ffi.Device,), {})  # as Apache TVM does
    for device in (tvm_ffi.device("cuda", 1), derived("cuda", 1)):
        assert kernels.echo(device) == graphffi.Device("cuda:1")
