# SPDX-License-Identifier: Apache-2.0
"""The family of random ops on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.families.calls import DTYPES, View, flatten, numpy_view
from tests.families.op_family import Member, members


def test_the_family_has_everything() -> None:
    all_members = [Member(number) for number in range(200)]
    letters = "".join(member.letters for member in all_members)
    assert set(letters) == set("ifIuUoa")
    assert {len(member.results) for member in all_members} == {0, 1, 2, 3}
    types = {p.type for member in all_members for p in member.parameters}
    assert types == {"Tensor", "int", "float", "bool", "str", "dtype", "Device"}
    assert len({member.schema for member in all_members}) > 190
    calls = [member.make_call(0) for member in all_members]
    arguments = flatten([call.args for call in calls])
    views = [view for view in arguments if isinstance(view, View)]
    assert {view.dtype for view in views} == set(DTYPES)
    assert {result.dtype for member in all_members for result in member.results} == set(DTYPES)
    assert sum(member.is_differentiable for member in all_members) > 50
    assert len({id(view) for view in views}) < len(views)  # one tensor in two places
    shapes = {view.shape for view in views}
    assert {len(shape) for shape in shapes} == {0, 1, 2, 3}
    assert any(0 in shape for shape in shapes)
    assert any(None in call.args for call in calls)
    assert any([] in call.args for call in calls)


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
def test_a_member_gives_the_reference(member: Member) -> None:
    op = member.define("family_numpy")
    for variant in range(3):
        call = member.make_call(variant)
        args = call.build(numpy_view)
        got = flatten([member.apply(call, op, args)])
        expected = member.expected(call)
        assert len(got) == len(expected)
        for actual, wanted in zip(got, expected, strict=True):
            assert actual.dtype == wanted.dtype
            np.testing.assert_array_equal(actual, wanted)
