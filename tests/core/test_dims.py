# SPDX-License-Identifier: Apache-2.0
"""Named dimensions: their text, and what calls are told that break them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi import Tensor

_number = itertools.count()


def fill(*arguments: Any) -> None:
    np.from_dlpack(arguments[-1])[...] = 1


def define(dims: str, schema: str = "(Tensor x, Tensor w) -> Tensor") -> Any:
    graphffi.register_global_func("dims.fill", fill, override=True)
    return graphffi.define_op(
        f"dims::op{next(_number)}",
        schema=schema,
        kernel="dims.fill",
        dims=dims,
        infer=lambda x, *_: graphffi.like(x),
    )


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


@pytest.mark.parametrize(
    ("dims", "x", "w"),
    [
        ("b s [h], [h] -> b s [h]", (2, 3, 4), (4,)),
        ("... [h], [h] -> ... [h]", (2, 3, 4), (4,)),
        ("... [h], [h] -> ... [h]", (4,), (4,)),
        ("..., ... -> ...", (2, 3), (2, 3)),
        ("b 3 _, -> b 3 _", (2, 3, 5), ()),
        ("b 3, 4 -> b _", (2, 3), (4,)),
        ("b [n n], [n] -> b [n n]", (2, 3, 3), (3,)),
        ("b [s h], [h s] -> b [s h]", (0, 1, 2), (2, 1)),
    ],
)
def test_sizes_that_fit(dims: str, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    assert define(dims)(ones(*x), ones(*w)).shape == x


@pytest.mark.parametrize(
    ("dims", "x", "w", "text"),
    [
        (
            "b s [h], [h] -> b s [h]",
            (2, 3, 4),
            (5,),
            "operand 'w': expected size 4 of 'h' as in operand 'x', got 5",
        ),
        (
            "b s [h], [h] -> b s [h]",
            (3, 4),
            (4,),
            "operand 'x': expected dimensions (b s h), got 2 dimensions",
        ),
        (
            "... [h], [h] -> ... [h]",
            (),
            (4,),
            "operand 'x': expected dimensions (... h), got 0 dimensions",
        ),
        (
            "..., ... -> ...",
            (2, 3),
            (2, 4),
            "operand 'w': expected size 3 of dimension 1 as in operand 'x', got 4",
        ),
        (
            "..., ... [h] -> ...",
            (2, 3),
            (2, 3, 4, 5),
            "operand 'w': expected 2 leading dimensions before (... h) as in operand 'x', got 3",
        ),
        (
            "b 3, -> b 3",
            (2, 4),
            (),
            "operand 'x': expected size 3 of dimension 1 as in dims, got 4",
        ),
    ],
)
def test_sizes_that_do_not_fit(
    dims: str, x: tuple[int, ...], w: tuple[int, ...], text: str
) -> None:
    op = define(dims)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        op(ones(*x), ones(*w))
    assert str(caught.value) == f"{op.name}: {text}"


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ("b, b", "expected '->' and the results' dimensions"),
        ("b -> b", "expected 2 groups for the operands, got 1"),
        ("b, b -> b, b", "expected 1 group for the results, got 2"),
        ("b ..., b -> b", r"expected '\.\.\.' to come first"),
        ("[b, b -> b", "expected brackets in pairs"),
        ("b], b -> b", "expected brackets in pairs"),
        ("b b, b -> b b", "expected 'b' once in a group"),
        ("b s, s -> b", r"expected 's' in every result; write \[s\]"),
        ("..., b -> b", r"expected '\.\.\.' in every result"),
        ("b*, b -> b", r"got '\*'"),
        ("2d, b -> d", "got '2d'"),
        ("_d, b -> d", "got '_d'"),
        ("\u00b2, b -> b", "got '\u00b2'"),
    ],
)
def test_texts_that_make_no_sense(dims: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        define(dims)


def test_lists_absent_operands_and_operands_updated_in_place() -> None:
    def update(x: Any, xs: Any, out: Any) -> None:
        np.from_dlpack(out)[...] += 1

    graphffi.register_global_func("dims.update", update, override=True)

    @graphffi.op(
        "dims::update",
        kernel="dims.update",
        plan="x, (xs), y",
        mutates="y",
        dims="b [h], b [_], b",
    )
    def op(x: Tensor | None, xs: list[Tensor], y: Tensor) -> None:
        pass

    y = ones(2)
    op(ones(2, 3), [ones(2, 5), ones(2, 6)], y)
    op(None, [], y)
    assert y.tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"operand 'xs\[1\]': expected size 2 of 'b'"):
        op(None, [ones(2, 5), ones(3, 6)], y)
    with pytest.raises(ValueError, match=r"operand 'y': expected size 3 of 'b'"):
        op(ones(3, 3), [], y)


def test_a_rule_that_breaks_its_own_dims_is_reported() -> None:
    op = graphffi.define_op(
        "dims::broken",
        schema="(Tensor x) -> Tensor",
        kernel="dims.fill",
        dims="b [h] -> b [h]",
        infer=lambda x: graphffi.like(x, shape=(x.size(0), 7)),
    )
    with pytest.raises(ValueError, match="shape rule: result 'out': expected size 3 of 'h'"):
        op(ones(2, 3))
