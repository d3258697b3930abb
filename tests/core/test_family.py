# SPDX-License-Identifier: Apache-2.0
"""The family of random ops on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.families.op_family import Member, flatten, members, numpy_view


def test_the_family_has_everything() -> None:
    all_members = [Member(number) for number in range(200)]
    letters = "".join(member.letters for member in all_members)
    assert set(letters) == set("iIuUoa")
    assert {len(member.results) for member in all_members} == {0, 1, 2, 3}
    types = {p.type for member in all_members for p in member.parameters}
    assert types == {"Tensor", "int", "float", "bool", "str", "dtype", "Device"}
    assert len({member.schema for member in all_members}) > 190
    calls = [member.make_call(0) for member in all_members]
    arguments = flatten([call.args for call in calls])
    shapes = {view.shape for view in arguments if hasattr(view, "strides")}
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
