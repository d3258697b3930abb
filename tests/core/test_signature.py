# SPDX-License-Identifier: Apache-2.0
"""Annotated signatures and schema strings say the same of an op."""

from __future__ import annotations

from typing import NamedTuple, Optional, TypeVar

import pytest

import graphffi
from graphffi import Device, Tensor, dtype
from graphffi._definition.parameter import MISSING, Attribute, Operand
from graphffi._definition.signature import from_function, from_schema


class Pair(NamedTuple):
    """Two results with names."""

    left: Tensor
    right: Tensor


def every_kind(
    x: Tensor,
    cache: Tensor,
    mask: Tensor | None,
    rest: list[Tensor],
    n: int,
    dims: list[int],
    dt: dtype,
    where: Device,
    eps: float = 1e-6,
    flag: bool = False,
    mode: str = "a",
    limit: int | None = None,
    bias: Optional[Tensor] = None,  # noqa: UP045
) -> tuple[Tensor, Tensor]:
    """The rule of an op with every kind of parameter."""
    return graphffi.like(x), graphffi.like(x)


EVERY_KIND = (
    "(Tensor x, Tensor(a!) cache, Tensor? mask, Tensor[] rest, int n, int[] dims, dtype dt, "
    "Device where, float eps=1e-6, bool flag=False, str mode='a', int? limit=None, "
    "Tensor? bias=None) -> (Tensor, Tensor)"
)


def test_annotations_and_schema_agree() -> None:
    annotated = from_function("lib::f", every_kind, ("cache",))
    assert annotated == from_schema("lib::f", EVERY_KIND)
    assert annotated.parameters[:4] == (
        Operand("x"),
        Operand("cache", mutated=True),
        Operand("mask", "optional"),
        Operand("rest", "list"),
    )
    assert annotated.parameters[8] == Attribute("eps", "float", default=1e-6)
    assert annotated.parameters[4] == Attribute("n", "int", default=MISSING)
    assert annotated.parameters[12] == Operand("bias", "optional", required=False)
    assert annotated.results == ("out0", "out1")


def test_a_named_tuple_names_the_results() -> None:
    def rule(x: Tensor) -> Pair:
        raise NotImplementedError

    signature = from_function("lib::f", rule, ())
    assert signature.results == ("left", "right")
    assert signature.result_type is Pair


def test_no_result() -> None:
    def rule(x: Tensor) -> None: ...

    assert from_function("lib::f", rule, ("x",)).results == ()
    assert from_schema("lib::f", "(Tensor(a!) x) -> ()").results == ()


def test_names_of_an_enclosing_function_resolve() -> None:
    alias = Tensor

    def rule(x: alias) -> alias:
        return graphffi.like(alias and x)

    assert from_function("lib::f", rule, ()).parameters == (Operand("x"),)


def test_names_that_get_a_value_later_are_no_obstacle() -> None:
    def rule(x: Tensor) -> Tensor:
        return later(x)

    parameters = from_function("lib::f", rule, ()).parameters
    later = graphffi.like
    assert parameters == (Operand("x"),)


def test_annotations_may_be_arrays_of_a_data_type() -> None:
    array = pytest.importorskip("numpy.typing").NDArray[pytest.importorskip("numpy").float32]

    def rule(x: array, xs: list[array], bias: array | None = None) -> tuple[array, array]:
        return (array and x, array and x)

    signature = from_function("lib::f", rule, ())
    bias = Operand("bias", "optional", required=False)
    assert signature.parameters == (Operand("x"), Operand("xs", "list"), bias)
    assert signature.results == ("out0", "out1")


def test_annotations_may_be_aliases() -> None:
    aliases = pytest.importorskip("typing_extensions")
    t = TypeVar("t")
    one = aliases.TypeAliasType("one", Tensor)
    maybe = aliases.TypeAliasType("maybe", t | None, type_params=(t,))
    pair = aliases.TypeAliasType("pair", tuple[one, one])
    many = aliases.TypeAliasType("many", list[t], type_params=(t,))
    number = aliases.TypeAliasType("number", int)

    def rule(x, xs, n, bias=None):  # type: ignore[no-untyped-def]
        return (x, x)

    types = {"x": one, "xs": many[one], "n": many[number], "bias": maybe[one], "return": pair}
    rule.__annotations__ = types
    signature = from_function("lib::f", rule, ())
    bias = Operand("bias", "optional", required=False)
    ints = Attribute("n", "int", True)
    assert signature.parameters == (Operand("x"), Operand("xs", "list"), ints, bias)
    assert signature.results == ("out0", "out1")


def test_annotations_may_be_quoted_twice() -> None:
    def rule(x: "Tensor", n: "int" = 1) -> "Tensor":  # noqa: UP037
        return graphffi.like(x)

    assert from_function("lib::f", rule, ()).parameters[0] == Operand("x")


def missing(x: Tensor, eps=1.0) -> Tensor: ...  # type: ignore[no-untyped-def]
def unknown(x: Tensor, eps: complex) -> Tensor: ...
def unresolved(x: Nowhere) -> Tensor: ...  # type: ignore[name-defined]  # noqa: F821
def variadic(*xs: Tensor) -> Tensor: ...
def wrong_default(x: Tensor, eps: float = "small") -> Tensor: ...  # type: ignore[assignment]
def wrong_result(x: Tensor) -> int: ...
def list_of_results(x: Tensor) -> list[Tensor]: ...
def pair(x: tuple[Tensor, Tensor]) -> Tensor: ...
def optional_list(xs: list[Tensor] | None) -> Tensor: ...
def no_tensor(x: Tensor = None) -> Tensor: ...  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (missing, r"lib::f: eps: expected an annotation \(Tensor, .*\), got none"),
        (unknown, "lib::f: parameter 'eps': expected Tensor, .* got <class 'complex'>"),
        (unresolved, "lib::f: x: cannot resolve the annotation 'Nowhere'"),
        (variadic, r"lib::f: parameter 'xs': expected a named parameter, got \*xs"),
        (wrong_default, "lib::f: attribute 'eps': default: expected a float, got str 'small'"),
        (wrong_result, "lib::f: return: expected Tensor, .* got <class 'int'>"),
        (pair, r"lib::f: parameter 'x': expected Tensor, .* got tuple\[.*Tensor, .*Tensor\]$"),
        (
            list_of_results,
            "lib::f: return: expected Tensor, a tuple of Tensors, a NamedTuple or None, got "
            r"list\[.*Tensor\]$",
        ),
        (optional_list, "lib::f: operand 'xs': expected a list of tensors, got an optional one"),
        (no_tensor, r"lib::f: operand 'x': expected no default, or None for .*, got None"),
        (1, "lib::f: expected a function as shape rule, got int 1"),
    ],
)
def test_a_wrong_signature_is_refused(rule: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        from_function("lib::f", rule, ())  # type: ignore[arg-type]


def test_mutates_names_operands() -> None:
    with pytest.raises(ValueError, match="mutates: expected names of tensor operands, got eps, y"):
        from_function("lib::f", every_kind, ("cache", "y", "eps"))
    with pytest.raises(ValueError, match="mutates: expected names of tensor operands, got 3"):
        from_function("lib::f", every_kind, ("cache", 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mutates: expected names of tensor operands, got None"):
        from_function("lib::f", every_kind, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "schema",
    ["Tensor x -> Tensor", "(Tensor) -> Tensor", "(Tensor x)", "(Foo x) -> Tensor",
     "(Tensor x) -> int", "(Tensor x, float eps=small) -> Tensor", "(int(a!) n) -> Tensor"],
)  # fmt: skip
def test_a_wrong_schema_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match="lib::f: schema: expected"):
        from_schema("lib::f", schema)


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        ("Tensor x=None", "operand 'x': expected no default, or None for .*, got None"),
        ("Tensor x=3", "operand 'x': expected no default, or None for .*, got 3"),
        ("Tensor[] x=None", "operand 'x': expected no default, or None for .*, got None"),
        ("Tensor[]? x", "operand 'x': expected a list of tensors, got an optional one"),
    ],
)
def test_only_an_optional_tensor_of_a_schema_may_be_none(operand: str, text: str) -> None:
    with pytest.raises(TypeError, match=f"lib::f: {text}"):
        from_schema("lib::f", f"({operand}) -> Tensor")


def test_a_default_that_kernels_cannot_be_given_is_refused() -> None:
    text = "lib::f: attribute 'n': default: expected an int of 64 bits, got int 9223372036854775808"
    with pytest.raises(ValueError, match=text):
        from_schema("lib::f", "(Tensor x, int n=9223372036854775808) -> Tensor")


def test_a_default_may_end_with_a_backslash() -> None:
    _, text, number = from_schema("lib::f", r"(Tensor x, str s='\\', int n=1) -> Tensor").parameters
    assert isinstance(text, Attribute)
    assert (text.default, number.name) == ("\\", "n")
